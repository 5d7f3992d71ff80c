"""Measured rates written by hand, so that no test of a rule depends on what the last grid gave."""

from __future__ import annotations

from heldout.verdict.measured import (
    RAW,
    REFERENCES,
    FiringCount,
    MeasuredRate,
    MeasuredRates,
    Provenance,
)

BY_HAND = Provenance(command="counted by hand", data_sha256="")
NOTHING_MEASURED = MeasuredRates(provenance=BY_HAND, rates=[])


def measured(
    detector: str, clean: tuple[int, int], seen: tuple[int, int], *, references: bool = True
) -> MeasuredRates:
    """``clean`` and ``seen``: how many models fired, of how many."""
    counted = FiringCount.of(clean[0], clean[1], clean[1])
    rate = MeasuredRate(
        detector=detector,
        way=REFERENCES if references else RAW,
        clean=counted,
        contaminated=FiringCount.of(seen[0], seen[1], seen[1]),
        off=counted.low > 0.05,
    )
    return MeasuredRates(provenance=BY_HAND, rates=[rate])
