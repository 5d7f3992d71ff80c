"""junit.xml: one test case per claim, for CI: a leak that survives fails, what is open is skipped."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.cure import JunitCase, junit
from heldout.verdict import Claim, is_leak


def claims_junit(benchmark: str, claims: Sequence[Claim]) -> bytes:
    return junit(f"heldout {benchmark}", [_case(claim) for claim in claims if not claim.idle])


def _case(claim: Claim) -> JunitCase:
    message = f"{claim.why}\n" + "\n".join(
        f"{claim.ended(control)}: {control.name}: {control.reason}" for control in claim.controls
    )
    if claim.status == "survives" and is_leak(claim):
        return JunitCase(claim.id, (claim.sentence, message), None)
    if claim.status in ("qualified", "not testable"):
        return JunitCase(claim.id, None, None, f"{claim.status}: {claim.why}")
    return JunitCase(claim.id, None, None)
