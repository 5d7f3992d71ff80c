"""Controls and claims: what a finding is worth once it has been challenged."""

from heldout.verdict.claim import Claim, Control, Status
from heldout.verdict.nearness_claims import nearness_claims
from heldout.verdict.overlap_claims import overlap_claims

__all__ = ["Claim", "Control", "Status", "nearness_claims", "overlap_claims"]
