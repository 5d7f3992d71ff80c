"""How a claim's controls are told: what it stands without is no control that failed."""

from __future__ import annotations

from heldout.detect import Cell
from heldout.report._summaries import claims_junit
from heldout.verdict import Claim, Control
from heldout.verdict.claim import LIMIT, Status

READ = Control(name="benchmark coverage", outcome="passed", reason="all pictures")
UNREAD = Control(name="corpus coverage", outcome="failed", reason="3 of 90 could not be read")


def _claim(status: Status) -> Claim:
    return Claim(
        id="overlap/web",
        cell=Cell(benchmark="b", corpus="web"),
        sentence="copies",
        status=status,
        why="because",
        findings=[],
        controls=[READ, UNREAD],
    )


def test_parts_that_were_not_read_are_a_limit_of_a_proven_copy_and_no_failed_control() -> None:
    stood = _claim("survives")
    assert [stood.ended(one) for one in stood.controls] == ["passed", LIMIT]
    told = claims_junit("b", [stood]).decode()
    assert f"{LIMIT}: corpus coverage" in told
    assert "failed: corpus" not in told


def test_without_a_copy_they_are_what_failed() -> None:
    open_ = _claim("qualified")
    assert [open_.ended(one) for one in open_.controls] == ["passed", "failed"]
