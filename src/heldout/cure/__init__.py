"""The cure: clean splits, new splits, training sets without the benchmarks."""

from heldout.cure.policy import POLICIES, Policy
from heldout.cure.resplit import resplit
from heldout.cure.sanitize import sanitize

__all__ = ["POLICIES", "Policy", "resplit", "sanitize"]
