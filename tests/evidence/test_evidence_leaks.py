"""What of each item leaked: pictures, words, answers and people joined, one rung per match."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.detect import joined_leakage
from heldout.evidence import PROVEN, ItemLeaks, Leak, Rung, join_leaks, leaks
from heldout.overlap import PARAPHRASE, CondensedMatches
from heldout.store import Run, make_table


def match(item: str, corpus_id: str, modality: str = "image only", **more: Any) -> dict[str, Any]:
    row = {
        "benchmark_id": item,
        "corpus": "c",
        "corpus_id": corpus_id,
        "modality": modality,
        "method": "phash",
        "degree": "none",
        "relation": "same image",
        "label_relation": "unknown",
        "evidence": "{}",
    }
    return {**row, **more}


def text(item: str, corpus_id: str, relation: str = "same item", **more: Any) -> dict[str, Any]:
    row = {
        "benchmark_id": item,
        "corpus": "c",
        "corpus_id": corpus_id,
        "relation": relation,
        "method": "exact",
        "degree": "hard",
        "answer_relation": "same",
        "evidence": "{}",
    }
    return {**row, **more}


def table(matches: list[dict[str, Any]], texts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    words = pl.DataFrame(make_table("text_matches", texts))
    pictures = pl.DataFrame(make_table("matches", matches))
    found = join_leaks(CondensedMatches.of([pictures], words), words)
    return {row["benchmark_id"]: row for row in found.to_dicts()}


def test_words_beside_a_copied_picture_make_the_leak_graver() -> None:
    found = table(
        [
            match("alone", "1"),
            match("asked", "2"),
            match("whole", "3"),
            match("told", "4", "full"),
            match("caption", "7"),
        ],
        [
            text("asked", "2", "same question", answer_relation="different", degree="none"),
            text("whole", "3", "edited", degree="soft"),
            text("caption", "7", "same caption", degree="none"),
            text("words", "5"),
            text("source", "6", "same source", method="provenance", degree="soft"),
        ],
    )
    assert {one: (row["modality"], row["rung"]) for one, row in found.items()} == {
        "alone": ("image only", Rung.COPY),
        "asked": ("image and question", Rung.COPY),
        "whole": ("full", Rung.FULL),
        "told": ("full", Rung.FULL),
        "caption": ("full", Rung.FULL),
        "words": ("text only", Rung.TEXT),
        "source": ("source only", Rung.SOURCE_OVERLAP),
    }


@pytest.mark.parametrize(
    ("said", "expected"), [("unknown", "same"), ("different", "conflicting"), ("same", "same")]
)
def test_an_answer_that_leaked_by_words_is_the_same_label(said: str, expected: str) -> None:
    found = table([match("a", "1", label_relation=said)], [text("a", "1", "edited")])["a"]
    assert (found["rung"], found["label_relation"]) == (Rung.FULL, expected)


def test_words_of_another_corpus_item_do_not_join_a_picture() -> None:
    found = table([match("a", "1")], [text("a", "2")])["a"]
    assert (found["modality"], found["rung"], found["corpus_id"]) == ("image only", Rung.COPY, "1")
    assert (found["image_hits"], found["text_hits"]) == (1, 1)


def test_a_possible_rewording_beside_a_copy_is_for_people_to_read() -> None:
    """Not a full leak: a small benchmark cannot tell it from another question with the same answer."""
    read = {"method": "embedding", "degree": "soft"}
    doubtful = json.dumps({"reading": {"doubtful": True}})
    found = table(
        [match("sure", "1"), match("possible", "2")],
        [
            text("sure", "1", PARAPHRASE, **read),
            text("possible", "2", PARAPHRASE, **read, evidence=doubtful),
            text("words", "3", PARAPHRASE, **read, evidence=doubtful),
        ],
    )
    assert {one: (row["modality"], row["rung"]) for one, row in found.items()} == {
        "sure": ("full", Rung.FULL),
        "possible": ("image only", Rung.COPY),
        "words": ("text only", Rung.SIMILAR),
    }
    assert found["possible"]["text_hits"] == 1


def test_another_subject_is_not_the_same_question() -> None:
    other = text("a", "1", "same template, other subject", degree="none")
    assert table([match("a", "1")], [other])["a"]["modality"] == "image only"


def test_a_common_question_alone_is_no_evidence() -> None:
    assert table([], [text("a", "1", "same question", degree="none")]) == {}


@pytest.mark.parametrize(
    ("row", "rung"),
    [
        (match("a", "1", relation="undecided"), Rung.UNDECIDED),
        (match("a", "1", relation="look-alike"), Rung.LOOK_ALIKE),
        (match("a", "1", relation="look-alike", degree="hard"), Rung.LOOK_ALIKE),
        (match("a", "1", relation="unrelated", degree="soft"), Rung.LOOK_ALIKE),
        (text("a", "1", "same question"), Rung.WORDING),
        (text("a", "1", "edited", degree="soft"), Rung.SIMILAR),
        (
            text("a", "1", degree="soft", evidence='{"beside": "another picture"}'),
            Rung.BESIDE_ANOTHER,
        ),
        (
            text(
                "a",
                "1",
                degree="soft",
                evidence='{"beside": "pictures that could not be compared"}',
            ),
            Rung.UNCOMPARED,
        ),
    ],
)
def test_what_is_no_proof_stands_on_a_rung_of_its_own(row: dict[str, Any], rung: Rung) -> None:
    pictured = "modality" in row
    found = table([row] if pictured else [], [] if pictured else [row])["a"]
    assert (found["rung"], found["shown_by"]) == (rung, None)
    assert rung not in PROVEN
    assert found["modality"] == ("none" if pictured else "text only")


def test_unrelated_pictures_without_a_degree_are_nothing() -> None:
    assert table([match("a", "1", relation="unrelated")], []) == {}


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


def test_the_surest_that_shows_a_copy_speaks_for_its_item() -> None:
    people = json.dumps({"people": {"verdicts": {"ann": "x", "bob": "x"}, "tool": "undecided"}})
    raised = match("a", "1", evidence=people)
    assert table([raised], [])["a"]["shown_by"] == "people"
    assert table([raised, match("a", "2")], [])["a"]["shown_by"] == "registration"
    by_digest = match("a", "3", method="pixels")
    assert table([match("a", "2"), by_digest, raised], [])["a"]["shown_by"] == "digest"


def test_rungs_compare_by_what_they_prove_and_not_by_their_names() -> None:
    assert all(low < high <= high and high > low for low, high in itertools.pairwise(Rung))
    assert max(Rung) is Rung.FULL and sorted(Rung, key=lambda rung: -rung)[0] is Rung.FULL
    assert Rung("same image") is Rung.COPY and f"{Rung.COPY}" == "same image"


def test_what_is_proven_speaks_for_an_item_before_what_is_not_and_pictures_before_words() -> None:
    def gravest(*rungs: Rung) -> Rung:
        rows = [{"corpus": "c", "corpus_id": str(n)} for n in range(len(rungs))]
        return ItemLeaks([Leak(*one) for one in zip(rungs, rows, strict=True)]).gravest.rung

    assert gravest(Rung.UNDECIDED, Rung.TEXT) is Rung.TEXT
    assert gravest(Rung.UNCOMPARED, Rung.LOOK_ALIKE) is Rung.LOOK_ALIKE
    assert gravest(Rung.LOOK_ALIKE, Rung.BESIDE_ANOTHER) is Rung.LOOK_ALIKE
    assert gravest(Rung.COPY, Rung.TEXT, Rung.FULL) is Rung.FULL


def test_the_finding_counts_what_is_proven_by_cluster_and_names_items_hit_often() -> None:
    items = pl.DataFrame({"benchmark_id": ["a", "b", "c", "d"], "cluster": ["1", "1", "2", "3"]})
    rows = join_leaks(
        CondensedMatches.of(
            [pl.DataFrame(make_table("matches", [match("a", "1", "full"), match("a", "2")]))]
        ),
        pl.DataFrame(
            make_table(
                "text_matches",
                [
                    text("b", "3"),
                    text("c", "4", method="provenance"),
                    text("d", "5", "edited", degree="soft"),
                ],
            )
        ),
    )
    found = joined_leakage(items, rows, benchmark="bench", corpus="c")
    assert (found.statistic.value, found.n, found.clusters) == (2, 4, 3)
    assert found.effect.value == 0.5 and "cluster" in found.effect.method.lower()
    assert found.details["by_modality"] == {
        "full": 1,
        "image and question": 0,
        "image only": 0,
        "text only": 1,
        "source only": 1,
    }
    assert found.details["by_rung"][Rung.SIMILAR] == 1
    assert found.details["multi_hit_items"] == ["a"]


def test_they_are_joined_again_only_when_a_table_of_the_run_changed(tmp_path: Path) -> None:
    run, other = Run.create(tmp_path / "run"), Run.create(tmp_path / "other")
    run.write_table("matches", make_table("matches", [match("a", "1")]))
    other.write_table("matches", make_table("matches", [match("b", "1")]))
    first = leaks(run)
    assert leaks(Run.open(run.path)) is first
    assert leaks(other)["benchmark_id"].to_list() == ["b"]
    assert leaks(run)["benchmark_id"].to_list() == ["a"]
    run.write_table("matches", make_table("matches", [match("c", "1")]))
    assert leaks(run)["benchmark_id"].to_list() == ["c"]
