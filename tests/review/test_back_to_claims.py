"""What people say comes back: the rebuilt report, the cure and the trail of the claim."""

from __future__ import annotations

import re
from pathlib import Path

from heldout.audit import conclude
from heldout.cure.leaks import Grade, leaks_of
from heldout.review import open_desks
from heldout.store import Run
from heldout.verdict import Claim


def _claim(run: Path) -> tuple[Claim, int]:
    """The claim of image overlap and how many images it says leaked."""
    found = conclude(Run.open(run))
    (claim,) = [one for one in found.claims if one.id == "overlap/web"]
    images = next(one for one in found.findings if one.id == "image-overlap/web/images")
    return claim, int(images.statistic.value)


def test_a_match_judged_unrelated_no_longer_counts(run: Path) -> None:
    before, leaked = _claim(run)
    assert "people:" not in before.why
    desk = open_desks(str(run), rater="ada")[0]
    flipped = next(
        index for index, card in enumerate(desk.cards) if "flipped" in card.hint["transform"]
    )
    items = {one["id"] for one in desk.cards[flipped].told["query"]["questions"]}
    desk.judge(flipped, "unrelated")
    claim, after = _claim(run)
    assert after == leaked - 1
    assert "people: 1 pair judged by 1 rater, no second rater" in claim.why
    assert "1 relation is theirs and not the tool's" in claim.why
    assert [control.name for control in claim.controls][-1] == "people"
    assert not items & {
        name for name, found in leaks_of(Run.open(run)).items() if found.grade >= Grade.COPY
    }
    desk.undo()
    assert _claim(run)[1] == leaked


def test_a_second_rater_brings_agreement_and_a_tie_is_no_copy(run: Path) -> None:
    _, leaked = _claim(run)
    ada, bo = open_desks(str(run), rater="ada")[0], open_desks(str(run), rater="bo", blind=True)[0]
    for index, card in enumerate(ada.cards):
        copy = card.hint["relation"] in ("same image", "transformed copy")
        ada.judge(index, "exact duplicate" if copy else "unrelated")
        bo.judge(index, "unsure" if index == 0 or not copy else "exact duplicate")
    claim, after = _claim(run)
    assert after == leaked - 1  # the first pair was the only copy of its picture
    assert "judged by 2 raters" in claim.why
    kappa = re.search(r"Cohen's kappa (-?[\d.]+)", claim.why)
    assert kappa is not None or "kappa is not defined" in claim.why
    assert "equal bytes or pixels stand against them in 1 pair" in claim.why
    assert claim.status == "survives"  # the other copies are still there
    page = (run / "report.html").read_text()
    assert "people: " in page


def test_one_rater_alone_makes_nothing_clean(hostile_run: Path) -> None:
    claim, leaked = _claim(hostile_run)
    assert (claim.status, leaked) == ("survives", 1)
    desk = open_desks(str(hostile_run), rater="ada")[0]
    desk.judge(0, "same view, other subject")
    claim, leaked = _claim(hostile_run)
    assert (claim.status, leaked) == ("qualified", 0)
    assert "equal bytes or pixels stand against them in 1 pair" in claim.why
    assert "second rater" in claim.next_step
    desk.judge(0, "transformed copy", seen=desk.card(0)["mine"]["time"])
    claim, leaked = _claim(hostile_run)
    assert (claim.status, leaked) == ("survives", 1)
