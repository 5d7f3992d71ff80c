"""Controls and claims: what a finding is worth once it has been challenged."""

from heldout.verdict.claim import Claim, Control, Status
from heldout.verdict.examine import Examination, examine, save_examination
from heldout.verdict.overlap_claims import overlap_claims

__all__ = [
    "Claim",
    "Control",
    "Examination",
    "Status",
    "examine",
    "overlap_claims",
    "save_examination",
]
