"""What people said of copies: what it changes in a claim, and what has to be confirmed first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from heldout.detect import Cell
from heldout.store import SCHEMAS
from heldout.verdict import Claim, Control
from heldout.verdict.people import with_people
from heldout.verdict.required import settled_by


def _matches(
    method: str,
    verdicts: dict[str, str],
    relation: str = "unrelated",
    tool: str = "transformed copy",
) -> pl.DataFrame:
    evidence = {
        "benchmark_pixels": "p1",
        "corpus_image": "i1",
        "people": {"tool": tool, "verdicts": verdicts},
    }
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["matches"].names)
    row |= {
        "benchmark_id": "q1",
        "image_index": 0,
        "corpus": "web",
        "corpus_id": "w1",
        "method": method,
        "similarity": 1.0,
        "relation": relation,
        "evidence": json.dumps(evidence),
    }
    return pl.DataFrame([row])


def _claim(status: Any = "qualified", outcome: Any = "failed") -> Claim:
    return Claim(
        id="overlap/web",
        cell=Cell(benchmark="bench", corpus="web"),
        sentence="None was found.",
        status=status,
        why="9 items were lost",
        rule="copies/parts-unread",
        findings=[],
        controls=[Control(name="corpus coverage", outcome=outcome, reason="9 items were lost")],
        next_step="make readable what was lost",
    )


def _undecided() -> Claim:
    return _claim("qualified", "passed").model_copy(
        update={
            "rule": "copies/undecided-left",
            "next_step": "have people judge the undecided pairs",
        }
    )


def test_one_rater_alone_is_the_first_thing_to_settle_even_where_parts_were_unread(
    wording: Callable[..., None],
) -> None:
    (told,) = with_people([_claim()], _matches("near", {"ada": "unrelated"}))
    assert (told.rule, told.status) == ("copies/dismissed-alone", "qualified")
    assert "second rater" in told.next_step and "readable" not in told.next_step
    wording(told)
    assert told.why.endswith("9 items were lost")
    first, *rest = settled_by(told)
    assert first.startswith("people: ")
    assert rest and rest[0].startswith("corpus coverage")


@pytest.mark.parametrize(
    "said",
    [
        {"ada": "unrelated", "bo": "unrelated"},
        {"ada": "unrelated"},
        {"ada": "exact duplicate", "bo": "unrelated"},
    ],
)
def test_equal_bytes_that_people_dispute_count_and_are_told(said: dict[str, str]) -> None:
    before = _claim("survives", "passed")
    (told,) = with_people([before], _matches("bytes", said, "transformed copy"))
    assert (told.rule, told.status, told.next_step) == (before.rule, "survives", before.next_step)
    assert "dispute 1 pair" in told.sentence
    assert "dismissed" not in told.why + told.sentence
    agreed = {"ada": "exact duplicate", "bo": "unsure"}
    (told,) = with_people([before], _matches("bytes", agreed, "transformed copy"))
    assert "dispute" not in told.sentence


def test_a_tie_is_a_disagreement_and_no_dismissal() -> None:
    tie = _matches("near", {"ada": "exact duplicate", "bo": "unrelated"}, "undecided")
    (told,) = with_people([_undecided()], tie)
    assert (told.rule, told.status) == ("copies/undecided-left", "qualified")
    assert "disagree about 1 pair" in told.sentence
    assert told.controls[-1].outcome == "missing"
    assert "dismissed" not in told.why + told.sentence + told.next_step
    assert told.next_step.startswith("let another rater")


def test_what_nobody_judged_is_still_sent_to_people_beside_a_tie() -> None:
    tie = _matches("near", {"ada": "exact duplicate", "bo": "unrelated"}, "undecided")
    evidence = json.dumps({"benchmark_pixels": "p2", "corpus_image": "i2"})
    (told,) = with_people(
        [_undecided()], pl.concat([tie, tie.with_columns(evidence=pl.lit(evidence))])
    )
    judge, another = told.next_step.split("; ")
    assert "undecided pairs" in judge and "another rater" in another


def test_one_who_is_unsure_dismisses_nothing() -> None:
    (told,) = with_people([_undecided()], _matches("near", {"ada": "unsure"}, "undecided"))
    assert (told.rule, told.status) == ("copies/undecided-left", "qualified")
    assert "unsure of 1 copy" in told.why and "dismissed" not in told.why


def test_one_rater_alone_makes_no_undecided_pair_clean() -> None:
    one = _matches("near", {"ada": "unrelated"}, tool="undecided")
    (told,) = with_people([_claim("clean", "passed")], one)
    assert (told.rule, told.status) == ("copies/dismissed-alone", "qualified")
    two = _matches("near", {"ada": "unrelated", "bo": "unrelated"}, tool="undecided")
    (told,) = with_people([_claim("clean", "passed")], two)
    assert told.status == "clean"
    decoy = _matches("near", {"ada": "unrelated"}, tool="look-alike")
    (told,) = with_people([_claim("clean", "passed")], decoy)
    assert told.status == "clean"  # the tool says so, too


def test_two_raters_who_agree_leave_what_was_unread_to_say() -> None:
    two = {"ada": "unrelated", "bo": "unrelated"}
    (told,) = with_people([_claim()], _matches("near", two))
    assert told.rule == "copies/parts-unread" and "readable" in told.next_step
    (clean,) = with_people([_claim("clean", "passed")], _matches("near", two))
    assert clean.status == "clean"


def test_a_claim_with_another_copy_left_keeps_its_status(wording: Callable[..., None]) -> None:
    (told,) = with_people([_claim("survives", "passed")], _matches("near", {"ada": "unrelated"}))
    assert told.status == "survives" and told.controls[-1].outcome == "missing"
    wording(told)


def _raised(*pictures: tuple[str, str, dict[str, str]]) -> pl.DataFrame:
    """(picture, what the tool said, what people said) of pairs that people call copies, two or more do."""
    rows = []
    for picture, tool, verdicts in pictures:
        now = "undecided" if len(verdicts) == 1 else "transformed copy"
        row = _matches("near", verdicts, now).row(0, named=True)
        people = {"people": {"tool": tool, "verdicts": verdicts}} if verdicts else {}
        evidence = {"benchmark_pixels": picture, "corpus_image": f"of {picture}", **people}
        rows.append({**row, "evidence": json.dumps(evidence)})
    return pl.DataFrame(rows)


def test_copies_that_one_rater_alone_recognised_do_not_make_a_claim_survive(
    wording: Callable[..., None],
) -> None:
    one = _raised(("p1", "undecided", {"ada": "exact duplicate"}))
    (told,) = with_people([_undecided()], one)
    assert (told.rule, told.status) == ("copies/undecided-left", "qualified")
    wording(told)
    assert "second rater" in told.next_step and settled_by(told)


def test_copies_that_two_raters_recognised_survive_and_say_so(wording: Callable[..., None]) -> None:
    two = _raised(("p1", "undecided", {"ada": "transformed copy", "bo": "transformed copy"}))
    (told,) = with_people([_claim("survives", "passed")], two)
    assert told.status == "survives"
    # What was said of measured copies speaks of none here.
    assert "9 items were lost" not in told.why
    wording(told)
    assert told.controls[-1].outcome == "passed"


def test_one_rater_beside_a_measured_copy_is_counted_apart(wording: Callable[..., None]) -> None:
    both = _raised(("p1", "transformed copy", {}), ("p2", "undecided", {"ada": "transformed copy"}))
    (told,) = with_people([_claim("survives", "passed")], both)
    assert told.status == "survives" and "Of these" not in told.sentence
    wording(told)
    assert "1 other picture" in told.sentence
    assert told.controls[-1].outcome == "missing"
