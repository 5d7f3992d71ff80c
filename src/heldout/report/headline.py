"""The answer to the question in the title, and the status that colours it."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.verdict import Claim, is_leak


def headline(claims: Sequence[Claim], searched: bool) -> tuple[str, str]:
    """``searched``: for transformed copies, too, not only for equal files."""
    # Nearness is not a leak and never answers the question, however strong it is.
    # A corpus of words has no copies, and one of pictures no words: that is no open question.
    leaks = [claim for claim in claims if is_leak(claim) and not claim.idle]
    statuses = {claim.status for claim in leaks}
    if "survives" in statuses:
        return "No.", "survives"
    corpora = [claim for claim in leaks if claim.cell.corpus is not None]
    if corpora and statuses == {"clean"}:
        copies = "copies" if searched else "exact copies"
        kinds = {claim.id.partition("/")[0] for claim in corpora}
        messages = [
            what for kind, what in (("overlap", copies), ("text", "words")) if kind in kinds
        ]
        return f"As far as {' and '.join(messages or [copies])} go, yes.", "clean"
    return "It could not be settled.", "qualified"
