"""What is counted of planted leaks: recall by kind, alarms and precision, from rows made by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.lab.leaks.board import REGISTERED, SCHEMA, STRANGER, LeakBoard, leak_board
from heldout.lab.leaks.page import BY_EYE, PAGE, leak_page, rate_cell, write_leaks
from heldout.lab.settings import LeakSettings
from heldout.overlap import TextSearch

EMPTY: dict[str, Any] = {
    "world": "films",
    "seed": 0,
    "group": "",
    "detail": "",
    "pictured": True,
    "method": "",
    "degree": "",
    "relation": "",
    "transform": "",
    "label_said": "",
    "other_pairs": 0,
    "other_graded": 0,
    "other_hard": 0,
    "other_undecided": 0,
    "other_copies": 0,
    "other_image": "",
    "other_relation": "",
    "untestable": "",
    "text_methods": "",
    "text_degree": "",
    "text_relation": "",
    "answer_said": "",
    "other_texts": 0,
    "other_text_hard": 0,
    "benchmark_items": 9,
    "told_by_question": 4,
    "told_by_answer": 3,
}
NEAR = {"kind": "watermarked", "found_by": "near"}
ANSWERED = {
    "kind": "exact bytes with another answer",
    "found_by": "bytes",
    "words": "exact",
    "label_relation": "different",
    "degree": "hard",
    "relation": "same image",
    "method": "bytes",
}
ALONE = {
    "kind": "question and answer alone",
    "words": "exact",
    "label_relation": "same",
    "pictured": False,
}
DECOY = {"kind": "one attribute changed"}


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    said: list[dict[str, Any]] = [
        {**NEAR, "degree": "hard", "relation": "transformed copy"},
        {**NEAR, "degree": "soft", "relation": "undecided", "transform": "changed in part"},
        {**NEAR, "degree": "none", "relation": "unrelated", "other_pairs": 2, "other_copies": 1},
        NEAR,  # not listed at all
        {**ANSWERED, "label_said": "different", "text_degree": "none", "answer_said": "different"},
        {**ANSWERED, "label_said": "unknown"},
        {**ALONE, "text_degree": "hard", "text_relation": "same item", "answer_said": "same"},
        {**ALONE, "text_degree": "soft", "text_relation": "same item", "answer_said": "unknown"},
        {**ALONE, "untestable": "asked several times"},
        {**DECOY, "degree": "hard", "relation": "look-alike"},
        {**DECOY, "degree": "soft", "relation": "undecided"},
        {**DECOY, "degree": "none", "relation": "unrelated", "other_texts": 1},
        {"kind": STRANGER},
        {"kind": STRANGER, "pictured": False},
    ]
    made = [{**EMPTY, **one, "corpus_id": str(place)} for place, one in enumerate(said)]
    return pl.DataFrame(made, schema=SCHEMA)


@pytest.fixture(scope="module")
def board(rows: pl.DataFrame) -> LeakBoard:
    return leak_board(rows)


def test_recall_of_pictures_counts_every_planted_one_at_every_degree(board: LeakBoard) -> None:
    marked = next(one for one in board.pictures if one.kind == "watermarked")
    counted = {level: (found.hits, found.n) for level, found in marked.levels.items()}
    assert counted == {
        "listed": (3, 4),
        "soft or hard": (2, 4),
        "hard": (1, 4),
        "left to people": (1, 4),
        "verified copy": (1, 4),
    }
    assert marked.label is None
    assert marked.levels["listed"].method == "clopper-pearson"
    relabelled = next(one for one in board.pictures if one.kind == ANSWERED["kind"])
    assert relabelled.label is not None and (relabelled.label.hits, relabelled.label.n) == (1, 2)


def test_recall_of_words_tells_those_that_could_not_be_found_apart(board: LeakBoard) -> None:
    alone = next(one for one in board.words if one.kind == ALONE["kind"])
    rates = [
        alone.testable,
        alone.listed,
        alone.counts,
        alone.of_testable,
        alone.claimed,
        alone.answer,
    ]
    assert [(one.hits, one.n) for one in rates if one] == [
        (2, 3),
        (2, 3),
        (2, 3),
        (2, 2),
        (1, 3),
        (1, 2),
    ]


def test_alarms_are_raised_by_what_is_no_leak_and_by_pictures_only_where_there_is_one(
    board: LeakBoard,
) -> None:
    decoy, stranger = board.alarms
    assert (decoy.kind, stranger.kind) == (DECOY["kind"], STRANGER)
    assert {level: found.hits for level, found in decoy.pictures.items()} == {
        "listed": 3,
        "soft or hard": 2,
        "hard": 1,
        "left to people": 1,
        "verified copy": 0,
    }
    assert [found.hits for found in decoy.words.values()] == [1, 0]
    assert {found.n for found in stranger.pictures.values()} == {1}
    assert {found.n for found in stranger.words.values()} == {2}


def test_precision_is_of_pairs_with_any_picture(board: LeakBoard) -> None:
    right = {(one.of, one.level): (one.right.hits, one.right.n) for one in board.precision}
    assert right["pictures", "verified copy"] == (3, 4)  # a copy of one picture called another's
    assert right["pictures", REGISTERED] == (1, 2)  # two of the three are equal bytes
    assert right["pictures", "hard"] == (3, 4)
    assert right["pictures", "left to people"] == (1, 2)
    assert right["words", "counts (soft or hard)"] == (2, 3)
    assert right["words", "hard"] == (1, 1)


def test_the_page_names_what_was_missed_and_why(rows: pl.DataFrame, board: LeakBoard) -> None:
    page = leak_page(rows, board, LeakSettings(), "heldout lab leaks --out somewhere")
    assert "| films | watermarked | undecided | changed in part | 1 | – |" in page
    assert "| films | watermarked | not listed | – | 1 | – |" in page
    assert "| films | asked several times | 1 |" in page
    # Of one benchmark: its items by what tells them apart.
    assert re.findall(
        r"the (\d+) items .* films, (\d+) .*, (\d+) more .* and (\d+) share", page
    ) == [("9", "4", "3", "2")]
    assert f"| watermarked | {rate_cell(board.pictures[1].levels['listed'])} |" in page or (
        f"| watermarked | {rate_cell(board.pictures[0].levels['listed'])} |" in page
    )


def test_the_page_names_the_encoder_that_looked_for_rewordings(
    rows: pl.DataFrame, board: LeakBoard
) -> None:
    """No setting means the encoder that is installed, as in the search that was counted."""
    default = TextSearch.installed().encoder
    for chosen, used in ((None, default), ("minilm", "minilm"), ("none", None)):
        page = leak_page(rows, board, LeakSettings(text_encoder=chosen), "heldout lab leaks")
        assert (f"--text-encoder {used}`" in page) == (used is not None)
        assert ("a text encoder" in page) == (used is None)


def test_what_people_wrote_on_the_page_is_kept(
    rows: pl.DataFrame, board: LeakBoard, tmp_path: Path
) -> None:
    write_leaks(rows, board, LeakSettings(), tmp_path, "first")
    page = tmp_path / PAGE
    page.write_text(page.read_text() + f"{BY_EYE}\n\nThe ink is white on white.\n")
    write_leaks(rows, board, LeakSettings(), tmp_path, "second")
    text = page.read_text()
    assert text.endswith(f"{BY_EYE}\n\nThe ink is white on white.\n")
    assert "`second`" in text and "`first`" not in text
    assert pl.read_parquet(tmp_path / "data" / "leak-recall.parquet").equals(rows)
