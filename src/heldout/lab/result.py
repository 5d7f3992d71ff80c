"""What a study of transforms found: every rate with its counts and its interval."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 2


class Strict(BaseModel):
    """Written to a file people script against: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(Strict):
    hits: int
    n: int
    value: float | None  # None where n is 0
    low: float
    high: float
    level: float
    method: str


class Estimate(Strict):
    value: float | None
    low: float
    high: float
    level: float
    method: str


class Threshold(Strict):
    """An operating point: a degree somebody fixed, or the similarity that meets a target FPR."""

    name: str
    value: float | None  # None where the collection is too small to tell
    kind: Literal["degree", "calibrated"]
    target: float | None = None  # the FPR it was calibrated to, on untransformed different pictures
    reason: str = ""


class Operating(Strict):
    """TPR and FPR at one threshold."""

    threshold: str
    tpr: Rate
    fpr: float | None
    false_pairs: int
    pairs: int
    fpr_low: float | None = None  # by query; known for fixed degrees only
    fpr_high: float | None = None


class Verified(Strict):
    """The cascade: the encoder's shortlist, then a judge of pairs."""

    shortlisted: Rate  # its own picture is on the shortlist
    accepted: Rate  # the judge accepts the pair with its own picture, shortlisted or not
    found: Rate  # both
    undecided: Rate  # on the shortlist, and the judge leaves it to people
    false_alarms: Rate  # pairs of different pictures the judge accepts, by query
    found_of_half: Rate | None = None  # crops: of the copies that keep half of the area or more


class Measured(Strict):
    """One transform, or several pooled."""

    name: str
    family: str
    description: str
    queries: int
    skipped: int  # pictures too small for it
    area_kept: float | None  # median share of the picture's area; crops only
    recall_at_1: Rate  # its own picture more similar than every other; a tie is a miss
    recall_at_k: Rate  # its own picture on the shortlist
    ties: int
    auc: Estimate
    median_similarity: float | None
    operating: list[Operating]
    verified: Verified | None = None


class RocPoint(Strict):
    threshold: float
    fpr: float
    tpr: float


class Pair(Strict):
    """Two different pictures, and how similar they are."""

    one: str
    other: str
    similarity: float


class Study(Strict):
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
    thresholds: list[Threshold]
    transforms: list[Measured]
    pools: list[Measured]
    roc: dict[str, list[RocPoint]]  # by pool
    closest: list[Pair] = Field(default_factory=list)  # look at these: copies that slipped in?
    wrongly_accepted: list[Pair] = Field(default_factory=list)

    def measured(self, name: str) -> Measured:
        return next(entry for entry in [*self.pools, *self.transforms] if entry.name == name)
