"""What of each item leaked: picture, question and answer joined over matches and text matches."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from heldout.detect import joined_leakage, leaks


def match(item: str, corpus_id: str, modality: str = "image only", **more: Any) -> dict[str, Any]:
    row = {
        "benchmark_id": item, "corpus": "c", "corpus_id": corpus_id, "modality": modality,
        "relation": "same image", "label_relation": "unknown",
    }  # fmt: skip
    return {**row, **more}


def text(item: str, corpus_id: str, relation: str = "same item", **more: Any) -> dict[str, Any]:
    row = {
        "benchmark_id": item, "corpus": "c", "corpus_id": corpus_id, "relation": relation,
        "method": "exact", "degree": "hard", "answer_relation": "same",
    }  # fmt: skip
    return {**row, **more}


def table(matches: list[dict[str, Any]], texts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    columns = dict.fromkeys(match("", ""), pl.String)
    words = dict.fromkeys(text("", ""), pl.String)
    found = leaks(pl.DataFrame(matches, schema=columns), pl.DataFrame(texts, schema=words))
    return {row["benchmark_id"]: row for row in found.to_dicts()}


def test_words_beside_a_copied_picture_make_the_leak_graver() -> None:
    found = table(
        [match("alone", "1"), match("asked", "2"), match("whole", "3"), match("told", "4", "full")],
        [
            text("asked", "2", "same question", answer_relation="different", degree="none"),
            text("whole", "3", "edited", degree="soft"),
            text("words", "5"),
            text("source", "6", "same source", method="provenance", degree="soft"),
        ],
    )
    assert {one: row["modality"] for one, row in found.items()} == {
        "alone": "image only",
        "asked": "image and question",
        "whole": "full",
        "told": "full",
        "words": "text only",
        "source": "source only",
    }


def test_words_of_another_corpus_item_do_not_join_a_picture() -> None:
    found = table([match("a", "1")], [text("a", "2")])
    assert found["a"]["modality"] == "image only"
    assert (found["a"]["image_hits"], found["a"]["text_hits"]) == (1, 1)


def test_another_subject_is_not_the_same_question() -> None:
    other = text("a", "1", "same template, other subject", degree="none")
    assert table([match("a", "1")], [other])["a"]["modality"] == "image only"


def test_a_common_question_alone_is_no_leak() -> None:
    assert table([], [text("a", "1", "same question", degree="none")]) == {}


def test_look_alikes_are_no_leak() -> None:
    assert table([match("a", "1", relation="same view, other subject")], []) == {}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["same", "unknown"], "same"),
        (["different", "unknown"], "different"),
        (["same", "different"], "conflicting"),
        (["unknown"], "unknown"),
    ],
)
def test_labels_of_several_copies(labels: list[str], expected: str) -> None:
    rows = [match("a", str(n), label_relation=label) for n, label in enumerate(labels)]
    assert table(rows, [])["a"]["label_relation"] == expected


def test_the_finding_counts_by_cluster_and_names_items_hit_often() -> None:
    items = pl.DataFrame({
        "benchmark_id": ["a", "b", "c", "d"], "cluster": ["1", "1", "2", "3"]
    })  # fmt: skip
    rows = pl.DataFrame({
        "benchmark_id": ["a", "b", "c"], "corpus": ["c"] * 3,
        "modality": ["full", "text only", "source only"], "label_relation": ["same"] * 3,
        "image_hits": [2, 0, 0], "text_hits": [1, 1, 0], "source_hits": [0, 0, 1],
    })  # fmt: skip
    found = joined_leakage(items, rows, benchmark="bench", corpus="c")
    assert (found.statistic.value, found.n, found.clusters) == (2, 4, 3)
    assert found.effect.value == 0.5 and "cluster" in found.effect.method.lower()
    assert found.details["by_modality"]["source only"] == 1
    assert found.details["triple_hit_items"] == ["a"]
    assert found.details["multi_hit_items"] == ["a"]
