"""What people say of two texts, and what that is worth once corpus and pictures were heard."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from heldout.overlap.judgements import judged_texts, text_pairs, text_subject
from heldout.store import SCHEMAS
from heldout.store.judgements import TEXT, Judgement

ITEM = {
    "benchmark_id": "q1",
    "position": 0,
    "cluster": "c",
    "question": "Where is the long lesion?",
    "options": [],
    "answer": "left lobe",
    "image_names": ["a.png"],
    "image_digests": ["d"],
    "metadata": "{}",
}


def _row(**changes: Any) -> dict[str, Any]:
    evidence = {
        "benchmark_text": "Where is the long lesion?",
        "corpus_text": "Where is a long lesion?",
        "corpus_answers": ["left lobe"],
        "generic": False,
        "short": False,
        "pictured": False,
        **changes.pop("evidence", {}),
    }
    return {
        "benchmark_id": "q1",
        "corpus": "web",
        "corpus_id": "p1",
        "method": "edit",
        "field": "question",
        "corpus_field": "question",
        "similarity": 0.95,
        "degree": "soft",
        "relation": "edited",
        "answer_relation": "same",
        "evidence": json.dumps(evidence),
        **changes,
    }


def _frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    empty = pl.from_arrow(SCHEMAS[name].empty_table())
    assert isinstance(empty, pl.DataFrame)
    return pl.DataFrame(rows, schema=empty.schema) if rows else empty


def _judged(
    rows: list[dict[str, Any]], *verdicts: str, queries: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    (pair,) = text_pairs(rows).values()
    subject = text_subject(ITEM, pair)
    said = [Judgement(f"rater {n}", TEXT, subject, one) for n, one in enumerate(verdicts)]
    return judged_texts(
        _frame("text_matches", rows),
        said,
        _frame("items", [ITEM]),
        _frame("matches", []),
        _frame("text_queries", queries or []),
    ).to_dicts()


@pytest.mark.parametrize(
    ("verdict", "relation", "degree"),
    [
        ("same question and answer", "same item", "hard"),
        ("same, reworded", "same item", "hard"),
        ("same question, not its answer", "same question", "hard"),
        ("same template, other subject", "same template, other subject", "none"),
        ("unrelated", "unrelated", "none"),
        ("unsure", "undecided", "soft"),
    ],
)
def test_every_verdict_has_its_relation_and_worth(verdict: str, relation: str, degree: str) -> None:
    (row,) = _judged([_row()], verdict, verdict)
    assert (row["relation"], row["degree"]) == (relation, degree)
    people = json.loads(row["evidence"])["people"]
    assert (people["tool"], people["tool_degree"]) == ("edited", "soft")


@pytest.mark.parametrize(
    ("found", "worth"),
    [
        ({}, ("edited", "same", "soft")),
        # Nothing before, now something for a second rater to read.
        (
            {"relation": "same template, other subject", "degree": "none"},
            ("same template, other subject", "same", "soft"),
        ),
        # What the tool found by itself is not lowered by somebody who sees more in it.
        (
            {"relation": "same question", "answer_relation": "unknown", "degree": "hard"},
            ("same question", "unknown", "hard"),
        ),
        ({"relation": "same item", "degree": "hard"}, ("same item", "same", "hard")),
        # Worth less beside another picture: that it is the item's own, a second has to say, too.
        ({"relation": "same item", "degree": "soft"}, ("same item", "same", "soft")),
    ],
)
def test_one_rater_alone_raises_no_text_to_the_item(
    found: dict[str, str], worth: tuple[str, str, str]
) -> None:
    (row,) = _judged([_row(**found)], "same, reworded")
    assert (row["relation"], row["answer_relation"], row["degree"]) == worth
    assert json.loads(row["evidence"])["people"]["verdicts"] == {"rater 0": "same, reworded"}


def test_words_beside_another_picture_are_worth_a_degree_less() -> None:
    beside = _row(evidence={"pictured": True}, degree="none")
    assert _judged([beside], "same question and answer")[0]["degree"] == "soft"
    assert _judged([_row(evidence={"short": True})], "same, reworded")[0]["degree"] == "soft"
    assert _judged([_row(evidence={"generic": True})], "same, reworded")[0]["degree"] == "none"


def test_a_question_the_corpus_answers_otherwise_stays_common() -> None:
    asked = {
        "benchmark_id": "q1",
        "corpus": "web",
        "method": "exact",
        "pairs": 9,
        "same_answer": 1,
        "other_answer": 8,
        "max_similarity": 1.0,
        "corpus_id": "p1",
    }
    twice = ["same question and answer"] * 2
    (row,) = _judged([_row()], *twice, queries=[asked])
    assert (row["relation"], row["degree"]) == ("same item", "none")


def test_all_methods_of_a_pair_are_judged_at_once_and_a_source_is_not() -> None:
    longer = {"corpus_text": "Where is a long lesion? A. left lobe B. right lobe"}
    rows = [
        _row(method="exact", field="question+options", evidence=longer),
        _row(),
        _row(method="provenance", relation="same source"),
    ]
    found = _judged(rows, "unrelated")
    assert [row["relation"] for row in found] == ["unrelated", "unrelated", "same source"]


def test_a_judgement_is_of_the_words_and_not_of_where_they_stand() -> None:
    def subject(**changes: Any) -> str:
        (pair,) = text_pairs([_row(**changes)]).values()
        return text_subject(ITEM, pair)

    assert subject() == subject(corpus="other", corpus_id="p9")
    assert subject() != subject(evidence={"corpus_answers": ["right lobe"]})
    cut = {"corpus_text": "x" * 500}  # what follows may differ
    assert subject(evidence=cut) != subject(evidence=cut, corpus_id="p9")
