"""People's word on a pair of pictures replaces the tool's, by majority, and says whose it was."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from heldout.overlap.judgements import (
    DISAGREE,
    DISMISSED_ALONE,
    RAISED_ALONE,
    judged_matches,
    majority,
    match_subject,
    not_agreed,
    recognised,
)
from heldout.store import SCHEMAS
from heldout.store.judgements import ITEM, MATCH, Judgement


def row(**changes: Any) -> dict[str, Any]:
    evidence = {
        "benchmark_pixels": changes.pop("pixels", "p1"),
        "corpus_image": changes.pop("theirs", "c1"),
        "corpus_question": changes.pop("question", ""),
        "corpus_answer": changes.pop("answer", ""),
    }
    return {
        "benchmark_id": "q1",
        "image_index": 0,
        "corpus": "web",
        "corpus_id": "w1",
        "method": "pdq",
        "similarity": 0.9,
        "degree": "soft",
        "relation": "undecided",
        "transform": "changed in part",
        "modality": "none",
        "label_relation": "unknown",
        "evidence": json.dumps(evidence),
        **changes,
    }


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    frame = pl.from_arrow(SCHEMAS["matches"].empty_table())
    assert isinstance(frame, pl.DataFrame)
    return pl.DataFrame(list(rows), schema=frame.schema)


def subject(of: dict[str, Any]) -> str:
    return match_subject(json.loads(of["evidence"]), of["corpus"], of["corpus_id"])


def say(of: dict[str, Any], **raters: str) -> list[Judgement]:
    return [Judgement(name, MATCH, subject(of), verdict) for name, verdict in raters.items()]


ITEMS = pl.DataFrame({"benchmark_id": ["q1"], "question": ["What is it?"], "answer": ["A cat"]})


def test_without_judgements_nothing_changes() -> None:
    found = table(row())
    assert judged_matches(found, []).equals(found)
    other = [Judgement("ada", ITEM, subject(row()), "accept")]
    assert judged_matches(found, other).equals(found)


def test_unrelated_is_no_copy_any_more() -> None:
    tool = row(relation="transformed copy", modality="full", label_relation="same")
    after = judged_matches(table(tool), say(tool, ada="unrelated")).row(0, named=True)
    assert (after["relation"], after["modality"], after["label_relation"]) == (
        "unrelated",
        "none",
        "unknown",
    )
    assert (after["degree"], after["transform"]) == ("none", "")
    people = json.loads(after["evidence"])["people"]
    assert people == {"verdicts": {"ada": "unrelated"}, "tool": "transformed copy"}


def test_a_copy_by_peoples_word_says_what_leaked_beside_it() -> None:
    tool = row(question="what is it", answer="a cat")
    two = say(tool, ada="transformed copy", bo="transformed copy")
    after = judged_matches(table(tool), two, ITEMS).row(0, named=True)
    assert (after["relation"], after["modality"], after["label_relation"]) == (
        "transformed copy",
        "full",
        "same",
    )
    both = say(row(), ada="exact duplicate", bo="exact duplicate")
    alike = judged_matches(table(row()), both, ITEMS).row(0, named=True)
    # Nothing that was measured says that the files are equal: an eye cannot.
    assert (alike["relation"], alike["modality"]) == ("transformed copy", "image only")


@pytest.mark.parametrize("method", ["bytes", "pixels"])
@pytest.mark.parametrize(
    "raters",
    [
        {"ada": "unrelated"},
        {"ada": "exact duplicate", "bo": "unrelated"},
        {"ada": "unsure"},
        {"ada": "unrelated", "bo": "unrelated"},
        {"ada": "transformed copy"},
    ],
)
def test_equal_digests_outrank_people(method: str, raters: dict[str, str]) -> None:
    tool = row(method=method, relation="same image", modality="full", label_relation="same")
    after = judged_matches(table(tool), say(tool, **raters)).row(0, named=True)
    assert {**after, "evidence": ""} == {**tool, "evidence": ""}
    assert json.loads(after["evidence"])["people"]["verdicts"] == raters


@pytest.mark.parametrize("tool", ["undecided", "look-alike", "unrelated"])
@pytest.mark.parametrize("verdict", ["exact duplicate", "transformed copy"])
def test_one_rater_alone_makes_no_copy(tool: str, verdict: str) -> None:
    found = row(relation=tool, question="what is it", answer="a cat")
    after = judged_matches(table(found), say(found, ada=verdict), ITEMS)
    told = after.row(0, named=True)
    assert (told["relation"], told["modality"], told["label_relation"]) == (
        "undecided",
        "none",
        "unknown",
    )
    assert not_agreed("undecided", json.loads(told["evidence"])) == RAISED_ALONE
    assert recognised(after).is_empty()


def test_an_undecided_pair_says_whether_raters_disagree() -> None:
    tool = row(relation="transformed copy")
    split = say(tool, ada="exact duplicate", bo="unrelated")
    told = judged_matches(table(tool), split).row(0, named=True)
    assert told["relation"] == "undecided"
    assert not_agreed("undecided", json.loads(told["evidence"])) == DISAGREE
    assert not_agreed("undecided", json.loads(row()["evidence"])) == ""
    assert not_agreed("unrelated", json.loads(row()["evidence"])) == ""
    doubt = judged_matches(table(tool), say(tool, ada="unsure")).row(0, named=True)
    assert not_agreed("undecided", json.loads(doubt["evidence"])) == ""


@pytest.mark.parametrize("tool", ["transformed copy", "undecided", "look-alike"])
def test_who_is_unsure_changes_nothing(tool: str) -> None:
    found = row(relation=tool)
    both = say(found, ada="unsure", bo="unsure")
    assert judged_matches(table(found), both).row(0, named=True)["relation"] == tool


def test_every_question_and_corpus_item_of_the_pair_follows() -> None:
    rows = [row(), row(benchmark_id="q2"), row(corpus_id="w2"), row(pixels="p2")]
    two = say(rows[0], ada="exact duplicate", bo="exact duplicate")
    after = judged_matches(table(*rows), two)
    assert after["relation"].to_list() == ["transformed copy"] * 3 + ["undecided"]


@pytest.mark.parametrize(
    ("verdicts", "relation"),
    [
        (["unrelated"], "unrelated"),
        (["unrelated", "unrelated", "exact duplicate"], "unrelated"),
        (["unrelated", "exact duplicate"], "undecided"),
        (["unsure", "transformed copy"], "undecided"),
        (["unsure", "transformed copy", "transformed copy"], "transformed copy"),
        (["exact duplicate", "transformed copy"], "transformed copy"),  # both say it is one
        (["exact duplicate", "transformed copy", "unrelated"], "undecided"),
        (["unrelated", "look-alike"], "look-alike"),  # both say that it is none
        (["unrelated", "look-alike", "unsure"], "undecided"),
        (["same source, other view"], "same source, other view"),
        (["unsure"], "undecided"),
    ],
)
def test_most_raters_decide_and_ties_count_as_no_copy(verdicts: list[str], relation: str) -> None:
    assert majority(verdicts) == relation


@pytest.mark.parametrize(
    ("tool", "waits"),
    [
        ("transformed copy", DISMISSED_ALONE),
        ("undecided", DISMISSED_ALONE),
        ("look-alike", ""),
    ],
)
def test_what_one_rater_alone_dismissed_waits_for_a_second(tool: str, waits: str) -> None:
    found = row(relation=tool)
    one, two = (
        judged_matches(table(found), say(found, **raters)).row(0, named=True)
        for raters in ({"ada": "unrelated"}, {"ada": "unrelated", "bo": "unrelated"})
    )
    assert (one["relation"], two["relation"]) == ("unrelated", "unrelated")
    assert not_agreed(one["relation"], json.loads(one["evidence"])) == waits
    assert not_agreed(two["relation"], json.loads(two["evidence"])) == ""


def test_an_embedding_without_a_picture_is_named_by_its_place() -> None:
    first, second = row(theirs=""), row(theirs="", corpus_id="w9")
    assert subject(first) != subject(second)
    assert subject(row()) == subject(row(corpus_id="w9"))
