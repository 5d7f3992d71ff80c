"""What a rater is shown: undecided pairs first, filters, a shared sample, progress of everybody, time per card."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heldout.errors import InputError
from heldout.review import Desk, ReviewCard, open_desks
from heldout.review.card import (
    BY_NOBODY,
    DISAGREED,
    UNDECIDED_FIRST,
    filters_of,
    match_orders,
    shuffled,
)
from heldout.store.judgements import MATCH, Judgement, append, history

Serving = Callable[..., str]


def pair(name: str, relation: str, method: str = "pixels-3", corpus: str = "web") -> ReviewCard:
    hint = {
        "relation": relation,
        "method": method,
        "similarity": 0.8,
        "modality": ["none"],
        "registration": {"detail": 0.5},
    }
    return ReviewCard(name, name, {}, hint, decides=((corpus, name),))


CARDS = [
    *(pair(f"near{n}", "look-alike") for n in range(20)),
    pair("bytes", "same image", "bytes"),
    pair("copy", "transformed copy"),
    pair("open1", "undecided", corpus="books"),
    pair("open2", "undecided"),
]


def test_undecided_pairs_come_before_everything_else() -> None:
    orders = match_orders(CARDS)
    assert next(iter(orders)) == UNDECIDED_FIRST
    names = [CARDS[index].subject for index in orders[UNDECIDED_FIRST]]
    assert set(names[:2]) == {"open1", "open2"}
    assert names[-1] == "bytes"  # no judgement can change it
    assert sorted(names) == sorted(card.subject for card in CARDS)


def test_filters_count_their_cards_and_a_blinded_rater_gets_none_that_tells() -> None:
    verdicts = {"open1": ["unrelated", "look-alike"], "copy": ["unrelated"]}
    filters = {one["name"]: one for one in filters_of(CARDS, verdicts, blind=False)}
    relations = {one["value"]: one["cards"] for one in filters["relation"]["choices"]}
    assert relations == {"look-alike": 20, "undecided": 2, "same image": 1, "transformed copy": 1}
    judged = {one["value"]: one["cards"] for one in filters["judged"]["choices"]}
    assert judged[BY_NOBODY] == len(CARDS) - 2 and judged[DISAGREED] == 1
    place = [one["value"] for one in filters["corpus"]["choices"]].index("books")
    held = [CARDS[n].subject for n, mine in enumerate(filters["corpus"]["cards"]) if place in mine]
    assert held == ["open1"]
    assert [one["name"] for one in filters_of(CARDS, verdicts, blind=True)] == ["corpus"]


def test_a_blinded_second_rater_meets_the_cards_of_the_first_before_others() -> None:
    (order,) = shuffled(CARDS, "bo", {"near3", "copy"}).values()
    assert {CARDS[index].subject for index in order[:2]} == {"near3", "copy"}


def test_a_sample_is_drawn_once_shared_by_raters_and_only_enlarged(run: Path) -> None:
    (everything,) = open_desks(str(run), rater="ada", kind="matches")
    assert len(everything.cards) > 5
    (first,) = open_desks(str(run), rater="ada", kind="matches", sample=3)
    (second,) = open_desks(str(run), rater="bo", kind="matches", sample=3, blind=True)
    subjects = [card.subject for card in first.cards]
    assert len(subjects) == 3
    assert [card.subject for card in second.cards] == subjects
    (larger,) = open_desks(str(run), rater="ada", kind="matches", sample=5)
    assert {card.subject for card in larger.cards} > set(subjects)
    with pytest.raises(InputError, match="5 or more"):
        open_desks(str(run), rater="ada", kind="matches", sample=3)


def test_a_sample_is_kept_when_the_run_finds_more(run: Path) -> None:
    open_desks(str(run), rater="ada", kind="matches", sample=3)
    kept = json.loads((run / "review/sample.json").read_text())["samples"]["matches"]
    others = [card.subject for card in open_desks(str(run), kind="matches")[0].cards]
    swapped = [name for name in others if name not in kept][:3]
    record = {"schema_version": 1, "samples": {"matches": swapped}}
    (run / "review/sample.json").write_text(json.dumps(record))
    (again,) = open_desks(str(run), rater="bo", kind="matches", sample=3)
    assert {card.subject for card in again.cards} == set(swapped)


def test_progress_counts_every_rater_and_looks_are_timed(run: Path) -> None:
    (desk,) = open_desks(str(run), rater="ada", kind="matches")
    append(run, Judgement("bo", MATCH, desk.cards[1].subject, "unrelated", seconds=9.0))
    desk.judge(0, "unrelated", seconds=4.2)
    assert desk.progress()["raters"] == [
        {"rater": "ada", "judged": 1},
        {"rater": "bo", "judged": 1},
    ]
    assert [judgement.seconds for judgement in history(run)] == [9.0, 4.2]
    table = desk.tables()[0]
    assert [row[-1] for row in table.rows] == ["4", "9"] and "seconds" in table.columns[-1]


def test_choices_are_kept_per_rater_and_kind(run: Path) -> None:
    (desk,) = open_desks(str(run), rater="ada", kind="matches")
    desk.remember({"order": "evidence", "filters": {"relation": "undecided"}})
    (again,) = open_desks(str(run), rater="ada", kind="matches")
    assert again.session()["remembered"]["order"] == "evidence"
    (other,) = open_desks(str(run), rater="bo", kind="matches")
    assert other.session()["remembered"] == {}
    with pytest.raises(InputError):
        desk.remember({"order": 3})
    (run / "review/desk.json").write_text("broken")
    assert again.session()["remembered"] == {}


def desk_of(run: Path) -> Desk:
    """Cards of two relations, whatever the search of this machine made of its pictures."""
    (desk,) = open_desks(str(run), rater="ada", kind="matches")
    relations = ("undecided", "look-alike")
    cards = [
        replace(card, hint={**card.hint, "relation": relations[n % 2], "method": "pixels-3"})
        for n, card in enumerate(desk.cards)
    ]
    return Desk(run, desk.title, desk.kind, "ada", cards)


def test_filters_work_on_the_page_and_are_there_the_next_time(
    run: Path, serving: Serving, page: Any
) -> None:
    from playwright.sync_api import expect

    desk = desk_of(run)
    undecided = sum(card.hint["relation"] == "undecided" for card in desk.cards)
    near = len(desk.cards) - undecided
    page.goto(serving(desk))
    page.wait_for_selector("body[data-shown]")
    expect(page.locator("#place")).to_have_text(f"1 / {len(desk.cards)}")
    assert page.locator("#order").input_value() == UNDECIDED_FIRST
    page.select_option("[data-filter=relation]", label=f"look-alike ({near})")
    expect(page.locator("#place")).to_have_text(f"1 / {near}")
    page.wait_for_selector("body[data-shown]")
    page.keyboard.press("4")
    expect(page.locator("#count")).to_contain_text(f"1 of {len(desk.cards)} judged")
    assert [one.verdict for one in history(run)] == ["look-alike"]
    assert next(iter(history(run))).seconds is not None
    page.reload()
    page.wait_for_selector("body[data-shown]")
    expect(page.locator("#place")).to_have_text(f"2 / {near}")  # the filter is remembered
    append(run, Judgement("bo", MATCH, desk.cards[0].subject, "unrelated"))
    page.reload()
    expect(page.locator("#raters")).to_have_text("bo 1")
