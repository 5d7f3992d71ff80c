"""Copies that people dismissed: a claim of its own row, with what would confirm it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from heldout.detect import Cell
from heldout.store import SCHEMAS
from heldout.verdict import Claim, Control
from heldout.verdict.people import with_people
from heldout.verdict.required import settled_by


def _matches(method: str, verdicts: dict[str, str], relation: str = "unrelated") -> pl.DataFrame:
    evidence = {
        "benchmark_pixels": "p1", "corpus_image": "i1",
        "people": {"tool": "transformed copy", "verdicts": verdicts},
    }  # fmt: skip
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["matches"].names)
    row |= {
        "benchmark_id": "q1", "image_index": 0, "corpus": "web", "corpus_id": "w1", "method": method,
        "similarity": 1.0, "relation": relation, "evidence": json.dumps(evidence),
    }  # fmt: skip
    return pl.DataFrame([row])


def _claim(status: Any = "qualified", outcome: Any = "failed") -> Claim:
    return Claim(
        id="overlap/web", cell=Cell(benchmark="bench", corpus="web"), sentence="None was found.",
        status=status, why="9 items were lost", rule="copies/parts-unread", findings=[],
        controls=[Control(name="corpus coverage", outcome=outcome, reason="9 items were lost")],
        next_step="make readable what was lost",
    )  # fmt: skip


def test_one_rater_alone_is_the_first_thing_to_settle_even_where_parts_were_unread() -> None:
    (told,) = with_people([_claim()], _matches("near", {"ada": "unrelated"}))
    assert (told.rule, told.status) == ("copies/dismissed-alone", "qualified")
    assert "second rater" in told.next_step and "readable" not in told.next_step
    assert told.sentence.startswith("People dismissed 1 pair of pictures of bench and web")
    assert told.why.endswith("9 items were lost")
    first, *rest = settled_by(told)
    assert first.startswith("people: let a second rater judge")
    assert rest and rest[0].startswith("corpus coverage")


def test_equal_bytes_that_people_dismissed_have_a_row_of_their_own() -> None:
    two = {"ada": "unrelated", "bo": "unrelated"}
    (told,) = with_people([_claim("clean", "passed")], _matches("bytes", two))
    assert (told.rule, told.status) == ("copies/equal-dismissed", "qualified")
    assert "equal bytes or pixels" in told.next_step


def test_two_raters_who_agree_leave_what_was_unread_to_say() -> None:
    two = {"ada": "unrelated", "bo": "unrelated"}
    (told,) = with_people([_claim()], _matches("near", two))
    assert told.rule == "copies/parts-unread" and "readable" in told.next_step
    (clean,) = with_people([_claim("clean", "passed")], _matches("near", two))
    assert clean.status == "clean"


def test_a_claim_with_another_copy_left_keeps_its_status() -> None:
    (told,) = with_people([_claim("survives", "passed")], _matches("near", {"ada": "unrelated"}))
    assert told.status == "survives" and told.controls[-1].outcome == "missing"


def _raised(*pictures: tuple[str, str, dict[str, str]]) -> pl.DataFrame:
    """(picture, what the tool said, what people said) of pairs that are copies now."""
    rows = []
    for picture, tool, verdicts in pictures:
        row = _matches("near", verdicts, "transformed copy").row(0, named=True)
        people = {"people": {"tool": tool, "verdicts": verdicts}} if verdicts else {}
        evidence = {"benchmark_pixels": picture, "corpus_image": f"of {picture}", **people}
        rows.append({**row, "evidence": json.dumps(evidence)})
    return pl.DataFrame(rows)


def test_copies_that_one_rater_alone_recognised_do_not_make_a_claim_survive() -> None:
    one = _raised(("p1", "undecided", {"ada": "exact duplicate"}))
    (told,) = with_people([_claim("survives", "passed")], one)
    assert (told.rule, told.status) == ("copies/recognised-alone", "qualified")
    assert "1 picture is a copy by one rater's word" in told.sentence
    assert "second rater" in told.next_step and settled_by(told)
    assert "1 pair called exact duplicates differ in bytes and pixels" in told.why
    assert (
        "9 items were lost" not in told.why
    )  # what was said of measured copies speaks of none here


def test_copies_that_two_raters_recognised_survive_and_say_so() -> None:
    two = _raised(("p1", "undecided", {"ada": "transformed copy", "bo": "transformed copy"}))
    (told,) = with_people([_claim("survives", "passed")], two)
    assert (told.rule, told.status) == ("copies/copy-found", "survives")
    assert "1 picture is a copy by people's word" in told.sentence
    assert told.controls[-1].outcome == "passed"


def test_one_rater_beside_a_measured_copy_is_counted_apart() -> None:
    both = _raised(("p1", "transformed copy", {}), ("p2", "undecided", {"ada": "transformed copy"}))
    (told,) = with_people([_claim("survives", "passed")], both)
    assert (told.rule, told.status) == ("copies/copy-found", "survives")
    assert "Of these, 1 picture is a copy by one rater's word" in told.sentence
    assert told.controls[-1].outcome == "missing"
    assert "one rater alone calls 1 picture copied" in told.controls[-1].reason
