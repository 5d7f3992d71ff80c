"""Former names of what ``heldout.evidence`` holds, for the rooms that still import them."""

from heldout.evidence import COPIES, PROVEN, ItemLeaks, Leak, Relation, evidence_of, leaks_of
from heldout.evidence import Rung as Grade

UNDECIDED = Relation.UNDECIDED

__all__ = ["COPIES", "PROVEN", "UNDECIDED", "Grade", "ItemLeaks", "Leak", "evidence_of", "leaks_of"]
