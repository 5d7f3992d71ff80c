"""τ(α): the similarity that a share α of different pictures exceed, and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.errors import InputError
from heldout.overlap.nearness.nearest import Null, mean_group
from heldout.stats import (
    Interval,
    UpperQuantile,
    binomial_interval,
    cluster_rate_interval,
    draws_needed,
    excess_p,
    upper_quantile,
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A picture is flagged when its nearest similarity lies strictly above ``value``."""

    alpha: float
    value: float
    interval: Interval
    encoder: str  # a threshold means nothing for another encoder
    source: str
    rank: int
    n: int
    design_effect: float

    def flags(self, similarities: ArrayLike, *, encoder: str) -> NDArray[np.bool_]:
        if encoder != self.encoder:
            raise InputError(
                f"this threshold was calibrated for encoder '{self.encoder}' and says nothing "
                f"about similarities of '{encoder}': calibrate on a null of that encoder"
            )
        values = np.asarray(similarities, dtype=np.float64)
        if np.isnan(values).any():
            raise InputError(
                "a similarity is not a number: drop pictures without an embedding first"
            )
        return values > self.value

    def excess_p(self, flagged: int, tested: int) -> float:
        """P(as many flags or more) were the tested pictures as different as those of the null."""
        quantile = UpperQuantile(self.value, self.interval, self.rank, self.n)
        return excess_p(flagged, tested, quantile, self.design_effect)

    def record(self) -> dict[str, Any]:
        """For findings and JSON."""
        return {**asdict(self), "interval": self.interval._asdict()}


def threshold(null: Null, alpha: float, *, level: float = 0.95) -> Threshold:
    """τ(α) with its order-statistic interval; an α the null is too small for is refused."""
    if not 0.0 < alpha < 0.5:
        raise InputError(f"alpha is a share of false alarms between 0 and 0.5, not {alpha:g}")
    needed = draws_needed(alpha, null.design_effect)
    if len(null) < needed:
        raise InputError(
            f"alpha = {alpha:g} needs a null of at least {needed:,} pictures"
            + (
                f" (related pictures, {null.design_effect:.1f} on average, count as one)"
                if null.design_effect > 1
                else ""
            )
            + f", this one has {len(null):,}: take a larger sample or reference set, or an alpha of "
            f"at least {alpha * needed / len(null):.2g}"
        )
    quantile = upper_quantile(
        null.similarities, alpha, level=level, design_effect=null.design_effect
    )
    return Threshold(
        alpha,
        quantile.value,
        quantile.interval,
        null.encoder,
        null.source,
        quantile.rank,
        quantile.n,
        null.design_effect,
    )


# Flag fraction against α, per image and per question, and what the negative controls say.


# Two orders of magnitude, four steps each.
ALPHAS: tuple[float, ...] = tuple(float(f"{alpha:.4g}") for alpha in np.logspace(-3, -1, 9))


class FlagRate(NamedTuple):
    """So many of so many, of one unit: rates of images and of questions are different numbers."""

    unit: Literal["images", "questions"]
    flagged: int
    n: int
    interval: Interval

    @property
    def value(self) -> float:
        return self.flagged / self.n if self.n else 0.0


class SweepPoint(NamedTuple):
    threshold: Threshold
    images: FlagRate
    questions: FlagRate | None
    images_at_ends: tuple[int, int]  # flagged at the upper and at the lower end of τ's interval
    p: float  # two-sided: of this many flagged images, were they as different as the null's


class Sweep(NamedTuple):
    points: tuple[SweepPoint, ...]
    unresolved: tuple[tuple[float, int], ...]  # α and the null it would need


class ControlSample(NamedTuple):
    """Pictures that cannot have leaked; what is flagged among them is a false alarm."""

    name: str
    domain: Literal["in domain", "out of domain"]
    alpha: float
    images: FlagRate
    p: float
    fires: bool  # more false alarms than α, beyond chance: the threshold does not fit this domain


def alpha_sweep(
    null: Null,
    images: ArrayLike,
    *,
    encoder: str,
    questions: ArrayLike | None = None,
    clusters: Sequence[str] | None = None,
    image_clusters: Sequence[str] | None = None,
    design_effect: float = 1.0,
    alphas: Sequence[float] = ALPHAS,
    level: float = 0.95,
) -> Sweep:
    """The flag fraction at every α the null resolves; the others are listed with what they need.

    ``images`` is the nearest similarity of every distinct benchmark image, ``questions`` that of
    every question (the largest among the images it shows) with its cluster. α is what unrelated
    images reach; questions that show several images reach more. ``image_clusters`` tells which images
    belong together (a patient), ``design_effect`` how many of them are near for one common reason.
    """
    pictures = np.asarray(images, dtype=np.float64)
    of_questions = None if questions is None else np.asarray(questions, dtype=np.float64)
    if of_questions is not None and (clusters is None or len(clusters) != len(of_questions)):
        raise InputError(
            f"{len(of_questions):,} questions need one cluster each, got {len(clusters or ()):,}: questions "
            f"that share an image are not independent"
        )
    points, unresolved = [], []
    for alpha in sorted(alphas):
        needed = draws_needed(alpha, null.design_effect)
        if len(null) < needed:
            unresolved.append((alpha, needed))
            continue
        tau = threshold(null, alpha, level=level)
        flagged = tau.flags(pictures, encoder=encoder)
        per_question = None
        if of_questions is not None and clusters is not None:
            hits = tau.flags(of_questions, encoder=encoder)
            per_question = _question_rate(hits, clusters, level)
        low, high = tau.interval.low, tau.interval.high
        ends = (int((pictures > high).sum()), int((pictures > low).sum()))
        p = flag_p(tau, int(flagged.sum()), len(flagged), design_effect)
        per_image = _image_rate(flagged, level, image_clusters)
        points.append(SweepPoint(tau, per_image, per_question, ends, p))
    return Sweep(tuple(points), tuple(unresolved))


def negative_control(
    name: str,
    domain: Literal["in domain", "out of domain"],
    tau: Threshold,
    images: ArrayLike,
    *,
    encoder: str,
    related: Sequence[str] | None = None,
    level: float = 0.95,
) -> ControlSample:
    """False alarms of τ among distinct images that are known not to be in the corpus.

    Images with one label in ``related`` are near for one reason (slices of one study) and count once.
    An out-of-domain control bounds nonsense only: paintings are far from every radiograph at any
    threshold. The in-domain one decides whether α means what it says.
    """
    flagged = tau.flags(images, encoder=encoder)
    if len(flagged) == 0:
        raise InputError(f"the negative control '{name}' has no images")
    rate = _image_rate(flagged, level, related)
    group = 1.0 if related is None else mean_group(related)
    p = tau.excess_p(int(rate.flagged / group), max(1, round(rate.n / group)))
    return ControlSample(name, domain, tau.alpha, rate, p, p < (1.0 - level) / 2.0)


def flag_p(tau: Threshold, flagged: int, tested: int, design_effect: float = 1.0) -> float:
    """Two-sided: so many flags, or so few, of pictures no nearer and no farther than the null's.

    ``design_effect`` pictures that share their nearest neighbour are flagged together or not at all:
    they count as one, rounded against the finding.
    """
    count, n = int(flagged / design_effect), max(1, round(tested / design_effect))
    more = tau.excess_p(count, n)
    fewer = 1.0 - tau.excess_p(count + 1, n) if count < n else 1.0
    return min(1.0, 2.0 * min(more, fewer))


def _image_rate(
    flagged: NDArray[np.bool_], level: float, clusters: Sequence[str] | None = None
) -> FlagRate:
    count, n = int(flagged.sum()), len(flagged)
    if clusters is not None and len(set(clusters)) < n:
        return FlagRate("images", count, n, cluster_rate_interval(flagged, clusters, level=level))
    return FlagRate("images", count, n, binomial_interval(count, n, level))


def _question_rate(hits: NDArray[np.bool_], clusters: Sequence[str], level: float) -> FlagRate:
    interval = cluster_rate_interval(hits, clusters, level=level)
    return FlagRate("questions", int(hits.sum()), len(hits), interval)


# Hard, soft or none: what a similarity is called, for the encoder it was measured with.
#
# A cosine of .95 is a near copy for one encoder and any two radiographs for another. The table holds
# what was measured; an encoder outside it gets its degrees from a null of its own, or none.


Degree = Literal["hard", "soft", "none"]


class Degrees(NamedTuple):
    """Hard from ``hard`` on, soft from ``soft`` on; ``encoder`` is an identity or its beginning."""

    encoder: str
    hard: float
    soft: float
    basis: str


class GradedSimilarity(NamedTuple):
    degree: Degree
    reason: str


_FLICKR = (
    "measured for CLIP ViT-B/32 on photographs (Flickr30k: false-positive rate 0 and 2e-7); "
    "other domains, radiographs above all, lie closer together: calibrate there"
)

_RADIOGRAPHS = (
    "measured for pixels on radiographs (bench/degrees.py): no two pictures of different origin of "
    "456,462 pairs reach .5, no two slices of one study .63; blurred and strongly compressed copies "
    "may lie below either"
)

# Encoder identity prefix → degrees. A line is added with the measurement behind it, never by
# analogy with another encoder.
DEGREES: Mapping[str, Degrees] = MappingProxyType(
    {
        prefix: Degrees(prefix, 0.98, 0.95, _FLICKR)
        for prefix in (
            "transformers:openai/clip-vit-base-patch32",
            "open_clip:ViT-B-32/openai",
            "open_clip:ViT-B-32-quickgelu/openai",
        )
    }
    | {"pixels-3": Degrees("pixels-3", 0.63, 0.5, _RADIOGRAPHS)}
)


def degrees_of(encoder: str) -> Degrees | None:
    """The degrees that the table has for an encoder, if any."""
    known = [prefix for prefix in DEGREES if _begins(encoder, prefix)]
    return DEGREES[max(known, key=len)] if known else None


def degree(similarity: float, encoder: str) -> GradedSimilarity:
    """The degree of one match, with the reason it is called so."""
    degrees = degrees_of(encoder)
    if degrees is None:
        reason = (
            f"no degrees were measured for encoder '{encoder}' and those of another do not carry "
            f"over: calibrate on a null, or let registration decide"
        )
        return GradedSimilarity("none", reason)
    if math.isnan(similarity):
        raise InputError("a similarity is not a number: drop pictures without an embedding first")
    for name, bound in (("hard", degrees.hard), ("soft", degrees.soft)):
        if similarity >= bound:
            return GradedSimilarity(
                "hard" if name == "hard" else "soft", f"≥ {bound:.4g}; {degrees.basis}"
            )
    return GradedSimilarity("none", f"< {degrees.soft:.4g}; {degrees.basis}")


def _begins(encoder: str, prefix: str) -> bool:
    """Whole words only: clip-vit-base-patch32 is not the beginning of clip-vit-base-patch320."""
    rest = encoder.removeprefix(prefix)
    return encoder.startswith(prefix) and (not rest or not (rest[0].isalnum() or rest[0] in "-_"))
