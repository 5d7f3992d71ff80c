"""The cure: clean splits, new splits, training sets without the benchmarks."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.cure.gate import GateResult, GateSettings, JunitCase, junit, write_gate
    from heldout.cure.policy import Policy, SanitizeSettings
    from heldout.cure.resplit import write_new_splits
    from heldout.cure.sanitize import CleanSplit, sanitize, write_clean_split

__all__ = [
    "CleanSplit",
    "GateResult",
    "GateSettings",
    "JunitCase",
    "Policy",
    "SanitizeSettings",
    "junit",
    "sanitize",
    "write_clean_split",
    "write_gate",
    "write_new_splits",
]

__getattr__ = load_on_first_use(__name__, __file__)
