"""Option lists that are part of a sentence, or written as in Chinese papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmark import Benchmark, check, read_benchmark
from heldout.benchmark._option_list import list_left, take_list

MODALITIES = ("CT", "MRI", "US")


def of_row(folder: Path, row: dict[str, Any]) -> Benchmark:
    """The benchmark of one row."""
    (folder / "t.jsonl").write_text(json.dumps(row), encoding="utf-8")
    return read_benchmark(folder / "t.jsonl")


@pytest.mark.parametrize(
    ("question", "key", "stem"),
    [
        # "or" and "and" before the last option
        ("Which? (A) CT, (B) MRI, or (C) US?", "C", "Which?"),
        ("Which? (A) CT, (B) MRI, or (C) US?", "A", "Which?"),
        ("Which? (A) CT (B) MRI or (C) US?", "A", "Which?"),
        ("Which? A: CT, B: MRI, and C: US.", "B", "Which?"),
        ("Which? A) CT; B) MRI; or C) US", "B", "Which?"),
        # two signs between the options
        ("Which? A. CT, B. MRI; C. US", "C", "Which?"),
        # a blank to fill in, and the full-width stop, which needs no space
        ("图中是（　）A．CT　B．MRI　C．US", "B", "图中是（　）"),
        ("图中是____A．CT B．MRI C．US", "Ｂ", "图中是____"),
        ("It is ( ) A. CT B. MRI C. US", "A", "It is ( )"),
        ("这是什么？A．CT；B．MRI；C．US。", "B", "这是什么？"),
        # the question below its options
        ("Options: A. CT B. MRI C. US\nQuestion: Which is it?", "A", "Which is it?"),
    ],
)
def test_every_option_is_taken_out(question: str, key: str, stem: str) -> None:
    asked, listed = take_list(question, (), key)
    assert listed is not None
    assert (asked, listed.options) == (stem, MODALITIES)


def test_an_or_inside_options_is_theirs() -> None:
    _, listed = take_list("Which? (A) left, or up (B) right, and down (C) or neither", (), "C")
    assert listed is not None
    assert listed.options == ("left, or up", "right, and down", "or neither")


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Read the sign. Options: open, closed. What is written?", "open"),
        ("Read the sign. Options: A: open, B: closed. What is written?", "A"),
        ("Which one? ① open ② closed", "①"),
        ("Which one?\n① open\n② closed", "2"),
        ("Which one?\nA open\nB closed", "A"),
        ("Which one?\n**A** open\n**B** closed", "A"),
        ("Which one? A=open, B=closed", "B"),
    ],
)
def test_what_cannot_be_taken_out_stays_and_is_reported(
    question: str, key: str, tmp_path: Path
) -> None:
    row = {"question": question, "answer": key}
    benchmark = of_row(tmp_path, row)
    assert (benchmark.examples[0].question, benchmark.examples[0].options) == (question, ())
    assert "option-list-in-question" in {found.rule for found in check(benchmark).problems}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What lies between ① and ② in the figure?", "the heart"),
        ("In the triangle A = 30, B = 40. How large is C - A?", "80"),
        ("The sums are\nA 30\nB 40\nHow much is it?", "70"),
        ("Which letter is on the sign?", "B"),
    ],
)
def test_figures_and_tables_in_a_question_are_no_list(question: str, answer: str) -> None:
    assert list_left(question, answer, ()) is None


def test_letters_before_a_dash_are_taken_off_and_ranges_stay(tmp_path: Path) -> None:
    for options, texts in (
        (["A - CT", "B - MRI"], ("CT", "MRI")),
        (["1 - 2", "2 - 3"], ("1 - 2", "2 - 3")),
        (["A-line", "B-line"], ("A-line", "B-line")),
    ):
        row = {"question": "Which?", "options": options, "answer": "B"}
        assert of_row(tmp_path, row).examples[0].options == texts
    row = {"question": "Which?", "options": "A．CT；B．MRI；C．US", "answer": "B"}
    assert of_row(tmp_path, row).examples[0].options == MODALITIES


@pytest.mark.parametrize("key", ["Ｂ", "（Ｂ）", "B．"])
@pytest.mark.parametrize("options", [["猫", "狗"], "A．猫 B．狗"])
def test_full_width_keys_are_letters(key: str, options: Any, tmp_path: Path) -> None:
    row = {"question": "什么？", "options": options, "answer": key}
    assert of_row(tmp_path, row).examples[0].answer == "狗"


@pytest.mark.timeout(5)  # it takes hundredths of a second
@pytest.mark.parametrize(
    "question", ["Which? (A) x" + " " * 19_000 + "y (B) z", "Which? A=x" + " " * 19_000]
)
def test_many_spaces_cost_no_time(question: str) -> None:
    asked, _ = take_list(question, (), "A")
    assert asked.startswith("Which?")
    list_left(question, "A", ())
