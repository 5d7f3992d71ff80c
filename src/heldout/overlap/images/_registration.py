"""Registration: the verdict on one pair of pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from heldout.overlap.relations import COPIES, Relation

Rows = tuple[tuple[float, float, float], ...]
IDENTITY: Rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Registration:
    """The verdict on one pair, with the numbers it rests on."""

    relation: Relation
    transform: str  # from the query to the candidate, in words; "" where it is no copy
    correlation: float  # of aligned greys
    residual: float  # share of the detail that the other picture does not explain
    detail: float  # correlation of aligned detail, median over windows
    overlap: tuple[float, float]  # share of the query's and of the candidate's area that is aligned
    inliers: int  # local features that agree; 0 where whole frames were laid on each other
    warp: Rows  # query to candidate, native pixels
    pose: str  # one of the eight
    inverted: bool
    reason: str = ""  # why it is undecided

    @property
    def is_copy(self) -> bool:
        return self.relation in COPIES

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
