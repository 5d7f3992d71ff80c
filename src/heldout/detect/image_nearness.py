"""image-nearness: how many pictures lie nearer to a corpus than different pictures do.

A flag is distributional nearness, not a leak: it counts pictures above τ(α), registered or not. One
finding over all pictures, one over those without a proven copy (what copies do not explain), one over
questions; the denominators are never mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from scipy import special

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.evidence import COPIES, Relation
from heldout.overlap import Calibration, Threshold, flag_p
from heldout.stats import binomial_interval, cluster_rate_interval, holm

NAME = "image-nearness"
_TESTS = 2  # all pictures, and those without a proven copy: Holm's first step, at least
LEVEL = 0.05
BLIND_TO = [
    "whether a similar picture is a copy: aligning the two decides that",
    "copies that were cropped, turned or put into a figure: only whole, upright pictures are compared",
    "similarity that is no larger than the similarity of the comparison pictures to each other",
]


def image_nearness(
    items: pl.DataFrame, matches: pl.DataFrame, calibration: Calibration, *, benchmark: str
) -> list[Finding]:
    """No findings if the null is too small for any α: the claim says so."""
    tau = calibration.tau
    if tau is None or not len(calibration.benchmark):
        return []
    flagged = calibration.flagged()
    verified = _verified(matches.filter(pl.col("corpus") == calibration.corpus))
    common: dict[str, Any] = {
        "detector": NAME,
        "cell": Cell(benchmark=benchmark, corpus=calibration.corpus),
        "blind_to": BLIND_TO,
        "seed": calibration.null.seed if calibration.null is not None else None,
        "table": "nearest",
    }
    details = _details(calibration, tau, flagged, verified)
    pictures = calibration.benchmark.pictures
    rest = [picture for picture in pictures if verified.get(picture) != "proven copies"]
    return [
        _images("images", pictures, flagged, calibration, tau, details, common),
        _images("images without a copy", rest, flagged, calibration, tau, {}, common),
        _questions(items, flagged, calibration, tau, common),
    ]


def adjust(findings: Sequence[Finding], others: Sequence[float] = ()) -> list[Finding]:
    """Holm over every nearness test of the run: the family is what the command asked for.

    ``others``: p of the tests that an audit made of other benchmarks beside these.
    """
    tested = [index for index, finding in enumerate(findings) if finding.p is not None]
    adjusted = holm([*(findings[index].p or 0.0 for index in tested), *others])
    result = list(findings)
    for index, p in zip(tested, adjusted, strict=False):
        result[index] = result[index].model_copy(update={"p_adjusted": p})
    return result


def _images(
    unit: str,
    pictures: Sequence[str],
    flagged: set[str],
    calibration: Calibration,
    tau: Threshold,
    details: dict[str, Any],
    common: dict[str, Any],
) -> Finding:
    clusters = [calibration.clusters.get(picture, picture) for picture in pictures]
    hits = [float(picture in flagged) for picture in pictures]
    n, count, groups = len(hits), int(sum(hits)), len(set(clusters))
    interval = binomial_interval(count, n) if groups == n else cluster_rate_interval(hits, clusters)
    p = flag_p(tau, count, n, calibration.design_effect) if n else None
    rate = count / n if n else 0.0
    return Finding(
        id=f"{NAME}/{calibration.name}/{'images' if unit == 'images' else 'rest'}",
        unit=unit,
        statistic=Statistic(name=f"{unit} above τ", value=count),
        effect=Effect.of(f"flag rate at α = {tau.alpha:.2g}", rate, interval),
        p=p,
        direction="none" if p is None or p >= LEVEL else "seen" if rate > tau.alpha else "not seen",
        n=n,
        clusters=groups,
        minimum_detectable_effect=_detectable(tau, n, calibration.design_effect),
        details=details,
        **common,
    )


def _questions(
    items: pl.DataFrame,
    flagged: set[str],
    calibration: Calibration,
    tau: Threshold,
    common: dict[str, Any],
) -> Finding:
    """A question is flagged with any of its pictures; α speaks of pictures, so there is no p."""
    known = set(calibration.benchmark.pictures)
    hits, clusters = [], []
    for digests, cluster in items.select("image_digests", "cluster").iter_rows():
        if digests and all(digest in known for digest in digests):
            hits.append(float(any(digest in flagged for digest in digests)))
            clusters.append(cluster)
    n, count, groups = len(hits), int(sum(hits)), len(set(clusters))
    interval = cluster_rate_interval(hits, clusters) if n else binomial_interval(0, 0)
    return Finding(
        id=f"{NAME}/{calibration.name}/questions",
        unit="questions",
        statistic=Statistic(name="questions about images above τ", value=count),
        effect=Effect.of(f"flag rate at α = {tau.alpha:.2g}", count / n if n else 0.0, interval),
        p=None,
        direction="none",
        n=n,
        clusters=groups,
        minimum_detectable_effect=_detectable(tau, groups, calibration.design_effect),
        **common,
    )


def _verified(here: pl.DataFrame) -> dict[str, str]:
    """The strongest relation that registration found for each picture it looked at."""
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    words: dict[str, str] = {}
    strength = {"proven copies": 2, "undecided": 1, "no copy": 0}
    for name, relation in here.select(picture, "relation").unique().sort("picture").iter_rows():
        word = (
            "proven copies"
            if relation in COPIES
            else "undecided"
            if relation == Relation.UNDECIDED
            else "no copy"
        )
        if name not in words or strength[word] > strength[words[name]]:
            words[name] = word
    return words


def _details(
    calibration: Calibration, tau: Threshold, flagged: set[str], verified: dict[str, str]
) -> dict[str, Any]:
    point = next(point for point in calibration.sweep.points if point.threshold.alpha == tau.alpha)
    words = ("proven copies", "undecided", "no copy", "not looked at")
    messages = [verified.get(text, "not looked at") for text in flagged]
    # Two pictures with the same neighbour are common in a small corpus: only more than chance is reported.
    crowded = (
        [hub for hub in calibration.hubs.hubs if hub.p_adjusted < LEVEL] if calibration.hubs else []
    )
    hubs = {hub.corpus_id for hub in crowded}
    near = zip(calibration.benchmark.pictures, calibration.benchmark.neighbours, strict=True)
    return {
        "encoder": calibration.encoder,
        "alpha": tau.alpha,
        "alpha_asked": calibration.asked,
        "tau": tau.value,
        "tau_interval": [tau.interval.low, tau.interval.high],
        "flagged_at_ends_of_tau": list(point.images_at_ends),
        "null_images": tau.n,
        "null_source": tau.source,
        "design_effect": calibration.design_effect,
        "flagged": {word: messages.count(word) for word in words},
        "proven_copies": sum(word == "proven copies" for word in verified.values()),
        "flagged_at_hubs": sum(1 for image, other in near if image in flagged and other in hubs),
        "notes": calibration.notes,
    }


def _detectable(tau: Threshold, n: int, design_effect: float) -> float:
    """The flag rate that would have been significant 19 times out of 20, both tests counted.

    Pictures that are near for one reason are flagged together: power is that of their groups.
    """
    groups = max(1, round(n / design_effect))
    counts = range(int(tau.alpha * groups), groups + 1)
    needed = next((k for k in counts if k and _rises(tau, k, groups)), None)
    return 1.0 if needed is None else float(special.betaincinv(needed, groups - needed + 1, 0.95))


def _rises(tau: Threshold, count: int, groups: int) -> bool:
    return count > tau.alpha * groups and flag_p(tau, count, groups) < LEVEL / _TESTS
