"""Permutations: a p that is as small as they can give, and still not small enough for the family."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.detect import Finding
from heldout.verdict.claim import Control
from heldout.verdict.model_claims import PERMUTATIONS, fires, strongest_of

_TIES = 1.001  # of the floor: sums of floats


def permutation_floor(findings: Sequence[Finding], q: float) -> list[Control]:
    """Nothing fires, but nothing could have: that is no sign of a clean model."""
    strongest = strongest_of(findings)
    if strongest is None or strongest.p is None or fires(findings, q):
        return []
    count = int(strongest.details.get("permutations") or 0)
    if not count or strongest.p > 2 / (count + 1) * _TIES:  # two-sided
        return []
    reason = (
        f"p = {strongest.p:.2g} is about the smallest that {count:,} permutations give, and {q:.2g} "
        "after correction: more of them could settle it"
    )
    return [Control(name=PERMUTATIONS, outcome="missing", reason=reason)]
