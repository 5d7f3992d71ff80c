"""Texts on the desk: what is marked, what people's word does to claims, leaks and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from texts_run import EDITED, HOSTILE, OTHER, WHOLE

from heldout.audit import conclude
from heldout.cure.gate import write_gate
from heldout.errors import InputError
from heldout.evidence import Rung, leaks_of
from heldout.overlap import read_text_matches
from heldout.overlap.judgements import TEXT_RELATIONS, text_majority
from heldout.review import Desk, open_desks
from heldout.review._matches import marked_words
from heldout.store import Run, make_table
from heldout.store.judgements import TEXT, current, history
from heldout.verdict import Claim


def _claim(run: Path) -> Claim:
    (claim,) = [one for one in conclude(Run.open(run)).claims if one.id == "text/web"]
    return claim


def _at(desk: Desk, item: str) -> int:
    return next(i for i, card in enumerate(desk.cards) if card.content["query"]["id"] == item)


def _say(desk: Desk, item: str, verdict: str) -> None:
    index = _at(desk, item)
    mine = desk.card(index)["mine"]
    desk.judge(index, verdict, seen=mine["time"] if mine else None)


def test_words_that_differ_are_marked_and_capitals_are_not() -> None:
    ours, (theirs,) = marked_words(
        "Is the LEFT lung clear?\nyes", ["is the right upper lung clear ?"]
    )
    assert [text for text, other in ours if other] == ["LEFT", "yes"]
    assert [text for text, other in theirs if other] == ["right upper"]
    assert "".join(text for text, _ in ours) == "Is the LEFT lung clear?\nyes"  # nothing is lost
    assert "".join(text for text, _ in theirs) == "is the right upper lung clear ?"
    assert marked_words("", ["anything"])[1] == [[("anything", True)]]


def test_texts_that_count_for_nothing_are_offered_by_name(texts_run: Path) -> None:
    opened = Run.open(texts_run)
    rows = [{**row, "degree": "none"} for row in opened.read_table("text_matches").to_pylist()]
    opened.write_table("text_matches", make_table("text_matches", rows))
    with pytest.raises(InputError, match="all pairs"):
        open_desks(str(texts_run), rater="ada", kind="texts")


def test_a_run_offers_its_texts_beside_its_matches(texts_run: Path, run: Path) -> None:
    (desk,) = open_desks(str(texts_run), rater="ada")  # nothing was found among its pictures
    assert desk.kind == "texts"
    assert [card.content["query"]["id"] for card in desk.cards] == [WHOLE, EDITED, HOSTILE]
    everything = open_desks(str(texts_run), rater="ada", kind="texts", unrelated=True)[0]
    assert OTHER in [card.content["query"]["id"] for card in everything.cards]
    for name in ("text_matches", "text_queries"):
        table = Run.open(texts_run).read_table(name)
        Run.open(run).write_table(name, table.slice(0, 0))
    assert [one.kind for one in open_desks(str(run), rater="ada")] == ["matches"]


def test_people_take_words_out_and_one_alone_makes_nothing_clean(texts_run: Path) -> None:
    assert _claim(texts_run).status == "survives"
    ada = open_desks(str(texts_run), rater="ada")[0]
    _say(ada, WHOLE, "unrelated")
    claim = _claim(texts_run)
    assert claim.status == "qualified"  # the reworded one, and the question without its answer
    assert "judged by 1 rater" in claim.why and "equal words in 1 pair" in claim.why
    assert claim.controls[-1].name == "people"
    found = leaks_of(Run.open(texts_run))
    assert WHOLE not in found
    for item in (EDITED, HOSTILE):
        _say(ada, item, "same template, other subject")
    claim = _claim(texts_run)
    assert claim.status == "qualified"
    assert "--kind texts --blind" in claim.next_step
    ada.undo()
    ada.undo()
    ada.undo()
    assert _claim(texts_run).status == "survives"


def test_a_rewording_that_two_people_recognise_counts_as_the_item(
    texts_run: Path, tmp_path: Path
) -> None:
    ada = open_desks(str(texts_run), rater="ada")[0]
    _say(ada, WHOLE, "unsure")
    assert _claim(texts_run).status == "qualified"
    _say(ada, EDITED, "same, reworded")
    claim = _claim(texts_run)
    assert claim.status == "qualified"  # one rater alone proves nothing
    assert "rater alone calls" in claim.why
    assert "--kind texts --blind" in claim.next_step
    assert leaks_of(Run.open(texts_run))[EDITED].grade is Rung.SIMILAR
    gate = write_gate(Run.open(texts_run), tmp_path / "one")
    assert (gate.passed, gate.protected[0].doubtful) == (True, 3)
    _say(open_desks(str(texts_run), rater="bo", blind=True)[0], EDITED, "same question and answer")
    gate = write_gate(Run.open(texts_run), tmp_path / "two")
    assert (gate.passed, gate.protected[0].leaked) == (False, 1)
    claim = _claim(texts_run)
    assert claim.status == "survives"
    assert "word for word" not in claim.why
    assert "1 of them by" in claim.why
    assert leaks_of(Run.open(texts_run))[EDITED].grade is Rung.TEXT
    page = (texts_run / "report.html").read_text()
    assert "judged by 2 raters" in page
    # The table itself is as the tool left it.
    untouched = Run.open(texts_run).read_table("text_matches").to_pylist()
    assert all("people" not in json.loads(row["evidence"]) for row in untouched)


def test_common_words_stay_common_whoever_recognises_them(texts_run: Path) -> None:
    """Of a question that is asked of everything, people's word makes no evidence."""
    run = Run.open(texts_run)
    table = run.read_table("text_matches")
    rows = table.to_pylist()
    for row in rows:
        evidence = {**json.loads(row["evidence"]), "generic": row["benchmark_id"] == EDITED}
        row["evidence"] = json.dumps(evidence)
        row["degree"] = "none" if evidence["generic"] else row["degree"]
    run.write_table("text_matches", table.from_pylist(rows, schema=table.schema))
    for rater in ("ada", "bo"):
        desk = open_desks(str(texts_run), rater=rater, unrelated=True)[0]
        _say(desk, EDITED, "same question and answer")
    judged = {row["benchmark_id"]: row for row in read_text_matches(run).to_dicts()}
    assert (judged[EDITED]["relation"], judged[EDITED]["degree"]) == ("same item", "none")


@pytest.mark.parametrize(
    ("verdicts", "relation"),
    [
        (["same, reworded", "same question and answer"], "same item"),
        (["same question and answer", "same question, not its answer"], "same question"),
        (["same question and answer", "unrelated"], "undecided"),
        (["unsure", "unrelated", "unrelated"], "unrelated"),
    ],
)
def test_most_raters_decide(verdicts: list[str], relation: str) -> None:
    assert text_majority(verdicts) == relation
    assert set(verdicts) <= set(TEXT_RELATIONS)


def test_texts_are_judged_by_keyboard_and_a_blinded_rater_sees_the_words_alone(
    texts_run: Path, serving: Callable[..., str], page: Any
) -> None:
    page.goto(serving(texts_run))
    page.wait_for_selector("body[data-shown]")
    assert page.locator("#stage-bar").is_hidden()
    page.select_option("#order", "evidence")
    page.wait_for_selector("body[data-shown]")
    assert "same item" in page.inner_text("#words")
    page.keyboard.press("1")
    _counted(page, 1)
    # The second is HTML on both sides, and stays text.
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.inner_text("#stage")
    assert "[U+202E]" in page.inner_text("#stage")
    page.keyboard.press("3")
    _counted(page, 2)
    assert page.locator("mark").all_inner_texts() == ["abnormality", "abnormalities"]
    page.wait_for_selector(".reading img")  # the item's own picture
    page.keyboard.press("2")
    _counted(page, 3)
    said = [one.verdict for one in history(texts_run)]
    assert said == ["same question and answer", "same question, not its answer", "same, reworded"]
    assert {one.kind for one in history(texts_run)} == {TEXT}
    page.goto(serving(texts_run, "bo", blind=True))
    page.wait_for_selector("body[data-shown]")
    text = page.inner_text("body")
    assert "tool says" not in text.lower()
    assert "ada" not in page.inner_text("#words")
    page.keyboard.press("6")
    _counted(page, 1)
    assert {rater for _, rater in current(texts_run, TEXT)} == {"ada", "bo"}


def _counted(page: Any, count: int) -> None:
    from playwright.sync_api import expect

    expect(page.locator("#count")).to_have_text(re.compile(f"^{count} of"))
    page.wait_for_selector("body[data-shown]")


def test_the_page_goes_from_matches_to_texts(
    run: Path, texts_run: Path, serving: Callable[..., str], page: Any
) -> None:
    for name in ("text_matches", "text_queries"):  # words of one run beside the pictures of another
        Run.open(run).write_table(name, Run.open(texts_run).read_table(name))
    items = Run.open(run).read_table("items")
    mine = Run.open(texts_run).read_table("items")
    Run.open(run).write_table(
        "items",
        type(items).from_pylist([*items.to_pylist(), *mine.to_pylist()], schema=items.schema),
    )
    page.goto(serving(run))
    page.wait_for_selector("body[data-shown]")
    kinds = [f"{one.kind} ({len(one.cards)})" for one in open_desks(str(run), rater="ada")]
    assert page.locator("#kind option").all_inner_texts() == kinds
    assert kinds[1] == "texts (3)"
    page.keyboard.press("1")
    _counted(page, 1)
    page.select_option("#kind", "texts")
    page.wait_for_selector(".reading")
    page.keyboard.press("5")
    _counted(page, 1)
    assert [one.kind for one in history(run)] == ["match", "text"]
    page.goto(f"{page.url.partition('#')[0]}#nonsense")
    page.reload()
    page.wait_for_selector("body[data-shown]")
    assert page.inner_text("#title").startswith("Matches")
