"""What people say comes back: the rebuilt report, the cure and the trail of the claim."""

from __future__ import annotations

import re
from pathlib import Path

from heldout.audit import conclude
from heldout.cure import write_gate
from heldout.evidence import Rung, leaks_of
from heldout.overlap.judgements import DISMISSED_ALONE, RAISED_ALONE
from heldout.review import open_desks
from heldout.store import Run, make_table
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
    items = {one["id"] for one in desk.cards[flipped].content["query"]["questions"]}
    desk.judge(flipped, "unrelated")
    claim, after = _claim(run)
    assert after == leaked - 1
    assert "1 pair judged by 1 rater" in claim.why and "relation of 1 pair" in claim.why
    assert [control.name for control in claim.controls][-1] == "people"
    assert not items & {
        name for name, found in leaks_of(Run.open(run)).items() if found.grade >= Rung.COPY
    }
    waits = leaks_of(Run.open(run))
    assert all(waits[name].gravest.reason == DISMISSED_ALONE for name in items)
    second = open_desks(str(run), rater="bo")[0]
    second.judge(flipped, "unrelated")
    assert not items & leaks_of(Run.open(run)).keys()
    desk.undo()
    second.undo()
    assert _claim(run)[1] == leaked


def test_a_second_rater_brings_agreement_and_a_tie_is_no_copy(run: Path) -> None:
    _, leaked = _claim(run)
    ada, bo = open_desks(str(run), rater="ada")[0], open_desks(str(run), rater="bo", blind=True)[0]
    for index, card in enumerate(ada.cards):
        copy = card.hint["relation"] in ("same image", "transformed copy")
        ada.judge(index, "exact duplicate" if copy else "unrelated")
        doubt = not copy or "flipped" in card.hint["transform"]
        bo.judge(index, "unsure" if doubt else "exact duplicate")
    claim, after = _claim(run)
    assert after == leaked - 1  # the flipped one was the only copy of its picture
    assert "judged by 2 raters" in claim.why
    kappa = re.search(r"Cohen's kappa (-?[\d.]+)", claim.why)
    assert kappa is not None or "kappa is not" in claim.why
    assert "raters disagree about " in claim.why and "dismissed" not in claim.why
    assert claim.status == "survives"  # the other copies are still there
    page = (run / "report.html").read_text()
    assert "<strong>people</strong>" in page
    assert "--rater rater-3 --blind" in page  # what two do not agree on needs a third


def test_equal_bytes_stay_a_copy_whatever_people_say(hostile_run: Path, tmp_path: Path) -> None:
    before, leaked = _claim(hostile_run)
    assert (before.status, leaked) == ("survives", 1)
    for rater, verdict in (("ada", "unrelated"), ("bo", "exact duplicate"), ("cy", "unrelated")):
        open_desks(str(hostile_run), rater=rater)[0].judge(0, verdict)
        claim, leaked = _claim(hostile_run)
        assert (claim.status, claim.rule, leaked) == ("survives", before.rule, 1)
        assert "dispute 1 pair" in claim.sentence
        gate = write_gate(Run.open(hostile_run), tmp_path / f"gate-{rater}")
        assert not gate.passed and gate.rows == 1


def test_one_rater_alone_raises_no_rate_and_no_gate(run: Path, tmp_path: Path) -> None:
    rows = Run.open(run).read_table("matches").to_pylist()
    doubt = {"relation": "undecided", "modality": "none", "label_relation": "unknown"}
    rows = [{**row, **doubt} if "flipped" in row["transform"] else row for row in rows]
    Run.open(run).write_table("matches", make_table("matches", rows))
    _, leaked = _claim(run)
    before = write_gate(Run.open(run), tmp_path / "before")
    ada, bo = (open_desks(str(run), rater=rater)[0] for rater in ("ada", "bo"))
    raised = [
        index
        for index, card in enumerate(ada.cards)
        if card.hint["relation"] not in ("same image", "transformed copy")
    ]
    assert raised
    for index in raised:
        ada.judge(index, "transformed copy")
    claim, after = _claim(run)
    assert (claim.status, after) == ("survives", leaked)
    assert "rater alone calls " in claim.sentence
    alone = write_gate(Run.open(run), tmp_path / "alone")
    assert alone.rows == before.rows
    assert RAISED_ALONE in (tmp_path / "alone/training_doubtful.csv").read_text()
    for index in raised:
        bo.judge(index, "transformed copy")
    claim, both = _claim(run)
    assert both == leaked + 1 and "by people's word" in claim.sentence
    assert write_gate(Run.open(run), tmp_path / "both").rows > before.rows
