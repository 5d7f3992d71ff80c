"""Controls and claims: what a finding is worth once it has been challenged."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.verdict.claim import Claim, Control, Status
    from heldout.verdict.examine import Examination, Looked, examine, judge, look, save_examination
    from heldout.verdict.measured import MeasuredRates, read_rates, shipped_rates
    from heldout.verdict.nearness_claims import nearness_claims
    from heldout.verdict.overlap_claims import overlap_claims
    from heldout.verdict.text_claims import text_claim

__all__ = [
    "Claim",
    "Control",
    "Examination",
    "Looked",
    "MeasuredRates",
    "Status",
    "examine",
    "judge",
    "look",
    "nearness_claims",
    "overlap_claims",
    "read_rates",
    "save_examination",
    "shipped_rates",
    "text_claim",
]

__getattr__ = load_on_first_use(__name__, __file__)
