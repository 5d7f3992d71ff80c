"""Flag fraction against α, per image and per question, and what the negative controls say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.errors import InputError
from heldout.overlap.calibration.null import Null, mean_group
from heldout.overlap.calibration.threshold import Threshold, threshold
from heldout.stats import Interval, binomial_interval, cluster_rate_interval, draws_needed

# Two orders of magnitude, four steps each.
ALPHAS: tuple[float, ...] = tuple(float(f"{alpha:.4g}") for alpha in np.logspace(-3, -1, 9))


class Rate(NamedTuple):
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
    images: Rate
    questions: Rate | None
    images_at_ends: tuple[int, int]  # flagged at the upper and at the lower end of τ's interval
    p: float  # two-sided: of this many flagged images, were they as different as the null's


class Sweep(NamedTuple):
    points: tuple[SweepPoint, ...]
    unresolved: tuple[tuple[float, int], ...]  # α and the null it would need


class Control(NamedTuple):
    """Pictures that cannot have leaked; what is flagged among them is a false alarm."""

    name: str
    domain: Literal["in domain", "out of domain"]
    alpha: float
    images: Rate
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
    images reach; questions that show several images reach more. ``image_clusters`` says which images
    belong together (a patient), ``design_effect`` how many of them are near for one common reason.
    """
    pictures = np.asarray(images, dtype=np.float64)
    asked = None if questions is None else np.asarray(questions, dtype=np.float64)
    if asked is not None and (clusters is None or len(clusters) != len(asked)):
        raise InputError(
            f"{len(asked):,} questions need one cluster each, got {len(clusters or ()):,}: questions "
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
        if asked is not None and clusters is not None:
            hits = tau.flags(asked, encoder=encoder)
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
) -> Control:
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
    return Control(name, domain, tau.alpha, rate, p, p < (1.0 - level) / 2.0)


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
) -> Rate:
    found, n = int(flagged.sum()), len(flagged)
    if clusters is not None and len(set(clusters)) < n:
        return Rate("images", found, n, cluster_rate_interval(flagged, clusters, level=level))
    return Rate("images", found, n, binomial_interval(found, n, level))


def _question_rate(hits: NDArray[np.bool_], clusters: Sequence[str], level: float) -> Rate:
    interval = cluster_rate_interval(hits, clusters, level=level)
    return Rate("questions", int(hits.sum()), len(hits), interval)
