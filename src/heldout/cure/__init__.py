"""The cure: clean splits, new splits, training sets without the benchmarks."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.cure.gate import Gate, write_gate
    from heldout.cure.junit import Case, junit
    from heldout.cure.policy import DOUBTFUL, POLICIES, Policy
    from heldout.cure.resplit import resplit
    from heldout.cure.sanitize import sanitize

__all__ = [
    "DOUBTFUL",
    "POLICIES",
    "Case",
    "Gate",
    "Policy",
    "junit",
    "resplit",
    "sanitize",
    "write_gate",
]

__getattr__ = load_on_first_use(__name__, __file__)
