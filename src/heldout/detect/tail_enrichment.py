"""tail-enrichment: how many items one model finds far easier than the median of its cohort.

A cohort is not a control: Δ inherits the calibration of its neighbours (`heldout lab confound` shows a
clean model flagged in every draw). The p-value therefore compares the tail with that of baselines that
cannot have seen the benchmark, item by item; without one there is a rate and no p.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.detect import tail_enrichment
from heldout.detect.detector import Detector, Need
from heldout.detect.finding import Finding, Outcome, direction_of, model_finding, not_testable
from heldout.detect.item_scores import SMALLEST, cohort_delta, cohort_scores
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables, covariates
from heldout.stats import (
    Interval,
    Permuted,
    cluster_mean,
    cluster_rate_interval,
    equal_sizes,
    expected_meeting,
    flip_test,
    holm,
    meeting_test,
)

NAME = "tail-enrichment"
HALF = 50.0  # the second, lower threshold that is always reported
BLIND_TO = [
    "a model that is better calibrated, or more confident, than its cohort looks like one that has "
    "seen the items",
    "memory that the other models of the cohort share",
]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    cohort = cohort_scores(tables, settings)
    if isinstance(cohort, str) or len(tables.models) < SMALLEST:
        reason = cohort if isinstance(cohort, str) else f"a cohort needs {SMALLEST} models"
        for model in tables.models:
            yield not_testable(NAME, tables.benchmark, model, reason)
        return
    _, clusters, scores, which = cohort
    delta = cohort_delta(scores)
    tails = delta > settings.tail
    if not tails.any():
        reason = (
            f"no item of any model lies Δ > {settings.tail:g} above its cohort by {which}: nothing could "
            f"have shown (the largest is {float(delta.max()):.3g}; the setting tail is the threshold)"
        )
        for model in tables.models:
            yield not_testable(NAME, tables.benchmark, model, reason)
        return
    rows = [tables.models.index(name) for name in settings.baselines if name in tables.models]
    for row, model in enumerate(tables.models):
        others = [index for index in rows if index != row]
        rate = float(tails[row].mean())
        interval = cluster_rate_interval(tails[row].astype(float), clusters)
        gap = _gap(tails, row, others) if others else None
        test = _against(gap, clusters, settings) if gap is not None else None
        above = cluster_mean(gap, clusters) if gap is not None else None
        flagged = rate > settings.flag
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="questions",
            statistic=("largest Δ", float(delta[row].max())),
            effect=(f"share of items with Δ > {settings.tail:g}", rate, interval),
            # Of what is tested: the share above the baselines', where there are any.
            error=above[1] if above else (interval.high - interval.low) / 3.92,
            p=test.p if test else None,
            n=len(clusters),
            clusters=len(set(clusters)),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            direction=(
                direction_of(test.p, test.statistic) if test else "seen" if flagged else "none"
            ),
            details={
                "score": which,
                "cohort": tables.models,
                "baselines": list(settings.baselines),
                "flagged": flagged,
                **quantiles(delta[row]),
                "p_tied": test.p_tied if test else None,
                "above_baselines": above
                and {"value": above[0], "low": above[2].low, "high": above[2].high},
                "permutations": test.evaluated if test else None,
                "least_p": test.least if test else None,
            },
        )


def quantiles(delta: Floats) -> dict[str, float]:
    """The published summary of one cell's Δ."""
    return {
        "delta_median": float(np.median(delta)),
        "delta_q95": float(np.quantile(delta, 0.95)),
        "delta_q99": float(np.quantile(delta, 0.99)),
        "delta_q999": float(np.quantile(delta, 0.999)),
        "delta_max": float(delta.max()),
        "pr_delta_gt_50": float((delta > HALF).mean()),
        "pr_delta_gt_100": float((delta > 100.0).mean()),
        "frac_positive": float((delta > 0).mean()),
    }


def _gap(tails: NDArray[np.bool_], row: int, baselines: list[int]) -> Floats:
    """Per item: in the model's tail or not, less the share of baselines."""
    return np.asarray(tails[row].astype(np.float64) - tails[baselines].mean(axis=0))


def _against(difference: Floats, clusters: list[str], settings: DetectSettings) -> Permuted:
    """Swap model and baseline cluster by cluster: the null is that neither has seen anything."""
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(clusters))
    sums = np.bincount(codes, weights=difference)
    return flip_test(sums, permutations=settings.permutations, seed=settings.seed)


DETECTOR = Detector(
    NAME,
    "cohort",
    "items far above the cohort's median",
    find,
    requires=frozenset({Need.COHORT}),
    controls=("tail of the baseline", "cohort"),
)


# Where a tail lies: its rate in every stratum of every field that divides the benchmark.
#
# A tail that lies in one kind of question is what that kind does to any confident model (the published one
# lies in the closed questions of SLAKE, for a model that cannot have seen them, too). So the table says what
# a stratum would have by chance and what the baselines have in it; it describes, and supports no claim.


Marks = NDArray[np.bool_]


class TailStratum(NamedTuple):
    """``expected``: the rate if the tail fell on items whatever their stratum; p by cluster."""

    field: str
    stratum: str
    n: int
    clusters: int
    in_tail: int
    rate: float
    interval: Interval
    expected: float
    baselines: float | None  # the mean rate of the baselines in the same stratum
    p: float | None  # None where no exchange of items and clusters changes the count
    p_adjusted: float | None = None  # Holm over all strata of this model

    def as_json(self) -> dict[str, object]:
        """For findings: the interval as its ends."""
        ends = {"low": self.interval.low, "high": self.interval.high}
        return {**self._asdict(), **ends, "interval": self.interval.method}


def with_strata(
    findings: Sequence[Finding], tables: ScoreTables, settings: DetectSettings
) -> list[Finding]:
    """Findings of tail-enrichment with ``details["by_stratum"]``; others as they are."""
    tested = [finding for finding in findings if finding.detector == tail_enrichment.NAME]
    cohort = cohort_scores(tables, settings) if tested else "no tail was measured"
    if isinstance(cohort, str):
        return list(findings)
    _, clusters, scores, _ = cohort
    tails = cohort_delta(scores) > settings.tail
    fields, fine = covariates(tables.common(tables.models)[0].frame)
    rows = [tables.models.index(name) for name in settings.baselines if name in tables.models]

    def filled(finding: Finding) -> Finding:
        row = tables.models.index(str(finding.cell.model))
        others = [index for index in rows if index != row]
        where = tail_strata(
            tails[row],
            clusters,
            fields,
            baselines=tails[others] if others else None,
            settings=settings,
        )
        more = {"by_stratum": [each.as_json() for each in where], "fields_too_fine": fine}
        return finding.model_copy(update={"details": {**finding.details, **more}})

    return [filled(finding) if finding in tested else finding for finding in findings]


def tail_strata(
    tail: Marks,
    clusters: Sequence[str],
    fields: Mapping[str, Sequence[str]],
    *,
    baselines: Marks | None = None,
    settings: DetectSettings | None = None,
) -> list[TailStratum]:
    """Every stratum of every field; ``baselines`` are the same items' marks, one row per baseline."""
    chosen = settings or DetectSettings()
    classes = equal_sizes(clusters)
    rows = []
    known: dict[bytes, float | None] = {}  # two strata of one field have one test
    for field, labels in fields.items():
        names = np.asarray(labels)
        for label in sorted(set(labels)):
            members = names == label
            groups = [clusters[int(index)] for index in np.flatnonzero(members)]
            hits = tail[members]
            key = max(members.tobytes(), (~members).tobytes())
            if key not in known:
                met = meeting_test(
                    tail, members, clusters, permutations=chosen.permutations, seed=chosen.seed
                )
                known[key] = None if met.test is None else met.test.p
            rows.append(
                TailStratum(
                    field,
                    label,
                    len(hits),
                    len(set(groups)),
                    int(hits.sum()),
                    float(hits.mean()),
                    cluster_rate_interval(hits, groups),
                    expected_meeting(tail, members, classes) / len(hits),
                    None if baselines is None else float(baselines[:, members].mean()),
                    known[key],
                )
            )
    return _adjusted(rows)


def _adjusted(rows: Sequence[TailStratum]) -> list[TailStratum]:
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(holm(tested) if tested else [])
    return [row if row.p is None else row._replace(p_adjusted=next(adjusted)) for row in rows]
