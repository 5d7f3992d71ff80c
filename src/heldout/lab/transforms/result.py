"""What a study of transforms found: every rate with its counts and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

from heldout.errors import InputError
from heldout.report import ROBUSTNESS_FILE, Recall, Robustness, RobustnessFile, Share
from heldout.stats import Interval, binomial_interval
from heldout.store import Run, write_json

SCHEMA_VERSION = 2


class StudyRecord(BaseModel):
    """Base of records in files that scripts read: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CountedRate(StudyRecord):
    hits: int
    n: int
    value: float | None  # None where n is 0
    low: float
    high: float
    level: float
    method: str


class AreaEstimate(StudyRecord):
    value: float | None
    low: float
    high: float
    level: float
    method: str


class OperatingThreshold(StudyRecord):
    """An operating point: a fixed degree, or the similarity that meets a target FPR."""

    name: str
    value: float | None  # None where the collection is too small to tell
    kind: Literal["degree", "calibrated"]
    target: float | None = None  # the FPR it was calibrated to, on untransformed different pictures
    reason: str = ""


class Operating(StudyRecord):
    """TPR and FPR at one threshold."""

    threshold: str
    tpr: CountedRate
    fpr: float | None
    false_pairs: int
    pairs: int
    fpr_low: float | None = None  # by query; known for fixed degrees only
    fpr_high: float | None = None


class CascadeRates(StudyRecord):
    """The cascade: the encoder's shortlist, then a judge of pairs."""

    shortlisted: CountedRate  # its own picture is on the shortlist
    accepted: CountedRate  # the judge accepts the pair with its own picture, shortlisted or not
    found: CountedRate  # both
    undecided: CountedRate  # on the shortlist, and the judge leaves it to people
    false_alarms: CountedRate  # pairs of different pictures the judge accepts, by query
    found_of_half: CountedRate | None = (
        None  # crops: of the copies that keep half of the area or more
    )


class TransformRates(StudyRecord):
    """One transform, or several pooled."""

    name: str
    family: str
    description: str
    queries: int
    skipped: int  # pictures too small for it
    area_kept: float | None  # median share of the picture's area; crops only
    recall_at_1: CountedRate  # its own picture more similar than every other; a tie is a miss
    recall_at_k: CountedRate  # its own picture on the shortlist
    ties: int
    auc: AreaEstimate
    median_similarity: float | None
    operating: list[Operating]
    verified: CascadeRates | None = None


class RocPoint(StudyRecord):
    threshold: float
    fpr: float
    tpr: float


class SimilarPair(StudyRecord):
    """Two different pictures, and how similar they are."""

    one: str
    other: str
    similarity: float


class TransformStudy(StudyRecord):
    schema_version: int = SCHEMA_VERSION
    collection: str
    side: Literal["query", "corpus"]  # what was transformed
    encoder: str
    views: int
    judge: str | None = None
    shortlist: int  # k of R@k, and how many pictures the judge is shown
    group: str | None = None  # what the different pictures that were judged have in common
    searched_only: int = 0  # pictures of other sources that are searched and not queried with
    pictures: int
    duplicates: int
    unusable: int
    strangers: int  # kept out of the collection to fill the other panels of figures
    queries: int
    clusters: int
    seed: int
    thresholds: list[OperatingThreshold]
    transforms: list[TransformRates]
    pools: list[TransformRates]
    roc: dict[str, list[RocPoint]]  # by pool
    closest: list[SimilarPair] = Field(
        default_factory=list
    )  # possibly copies that were not removed
    wrongly_accepted: list[SimilarPair] = Field(default_factory=list)

    def measured(self, name: str) -> TransformRates:
        return next(entry for entry in [*self.pools, *self.transforms] if entry.name == name)


# Rates of a study with intervals: queries are the units, pairs of one query rise and fall together.


_DRAWS = 1000


def rate(hits: ArrayLike, sizes: ArrayLike, clusters: Sequence[str]) -> CountedRate:
    """``hits`` of ``sizes`` in every unit; units of one cluster are one observation.

    Exact (Clopper–Pearson) where every unit is one trial and its own cluster. Else a percentile
    bootstrap over clusters; where all clusters agree there is nothing to vary and the exact
    interval over clusters is given.
    """
    counts, trials = np.asarray(hits, np.int64), np.asarray(sizes, np.int64)
    used = trials > 0
    counts, trials = counts[used], trials[used]
    _, members = np.unique(
        np.asarray(clusters, dtype=object)[used].astype(str), return_inverse=True
    )
    sums = np.bincount(members, weights=counts).astype(np.float64)
    totals = np.bincount(members, weights=trials).astype(np.float64)
    successes, n = int(counts.sum()), int(trials.sum())
    if n == len(sums):
        interval = binomial_interval(successes, n)
    elif successes in (0, n):
        interval = binomial_interval(len(sums) if successes else 0, len(sums))
        interval = interval._replace(method="clopper-pearson over clusters")
    else:
        interval = _bootstrap(sums, totals)
    return CountedRate(
        hits=successes, n=n, value=successes / n if n else None, **interval._asdict()
    )


def _bootstrap(
    sums: NDArray[np.float64], totals: NDArray[np.float64], level: float = 0.95
) -> Interval:
    count = len(sums)
    rng = np.random.default_rng(0)  # fixed: the same counts give the same interval
    even = np.full(count, 1.0 / count)
    rates = []
    for _ in range(_DRAWS):
        weights = rng.multinomial(count, even)
        rates.append((weights @ sums) / (weights @ totals))
    low, high = np.quantile(rates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high), level, "cluster bootstrap")


# A study of transforms as a report shows it: counts per transform, without curves and pairs.


def robustness(studies: Sequence[TransformStudy], command: str) -> RobustnessFile:
    return RobustnessFile(studies=[_of(study, command) for study in studies])


def keep_robustness(studies: Sequence[TransformStudy], folder: Path, command: str) -> Path:
    """In the folder of the study, or in a run folder, whose report shows it then."""
    path = folder / ROBUSTNESS_FILE
    write_json(path, robustness(studies, command).model_dump(mode="json", exclude_none=True))
    return path


def refuse_another_encoder(run: Run, encoder: str) -> None:
    """Before hours of measuring: a report shows only what fits its own search."""
    used = sorted(
        {stage["encoder"] for stage in run.manifest()["stages"].values() if stage["encoder"]}
    )
    if encoder not in used:
        message = ", ".join(f"'{name}'" for name in used) or "none"
        raise InputError(
            f"run {run.path}: its report would not show this, because the run was searched with another "
            f"encoder (it has {message}; this is '{encoder}'). Use the encoder of that run"
        )


def _of(study: TransformStudy, command: str) -> Robustness:
    return Robustness(
        command=command,
        collection=study.collection,
        side=study.side,
        encoder=study.encoder,
        judge=study.judge,
        shortlist=study.shortlist,
        queries=study.queries,
        pictures=study.pictures,
        transforms=[_recall(transform) for transform in study.transforms],
    )


def _recall(measured: TransformRates) -> Recall:
    judged = measured.verified
    return Recall(
        name=measured.name,
        description=measured.description,
        shortlisted=_share(measured.recall_at_k),
        found=_share(judged.found) if judged else None,
        undecided=_share(judged.undecided) if judged else None,
    )


def _share(rate: CountedRate) -> Share:
    return Share(hits=rate.hits, n=rate.n, low=round(rate.low, 6), high=round(rate.high, 6))
