"""Several right answers to one question: which of them is the answer, and which replies are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmark import Benchmark, also_right, items_table, read_benchmark
from heldout.detect.impact._predictions import items_as_benchmark
from heldout.model.asking.forms import Question, original
from heldout.model.asking.prompts import Reply
from heldout.model.asking.stage import graded

VOTES = [{"answer": text, "answer_id": n} for n, text in enumerate(["cat", "kitty", "cat", "dog"])]


def of_row(folder: Path, **row: Any) -> Benchmark:
    """The benchmark of one row."""
    (folder / "t.jsonl").write_text(json.dumps({"id": "1", "question": "What?", **row}))
    return read_benchmark(folder / "t.jsonl")


def outcome(benchmark: Benchmark, reply: str) -> str:
    question = original(benchmark.examples[0])
    assert isinstance(question, Question)
    return graded(question, Reply(question.id, reply)).outcome


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("answers", [["cat", "a kitten"], "['cat', 'a kitten']"])
def test_every_accepted_answer_is_right(answers: Any, stored: bool, tmp_path: Path) -> None:
    benchmark = of_row(tmp_path, answers=answers)
    if stored:  # `impact` reads the items of a run, and has to grade as `ask` does
        benchmark = items_as_benchmark("t", items_table(benchmark).to_pylist())
    assert benchmark.examples[0].answer == "cat"
    assert outcome(benchmark, "The cat.") == outcome(benchmark, "kitten") == "right"
    assert outcome(benchmark, "dog") == "wrong"


def test_answers_of_vqa_v2_are_texts(tmp_path: Path) -> None:
    assert of_row(tmp_path, answers=VOTES).examples[0].answer == "cat"
    both = of_row(tmp_path, answers=VOTES, multiple_choice_answer="dog").examples[0]
    assert (both.answer, also_right(both)) == ("dog", ())


@pytest.mark.parametrize("stored", [False, True])
def test_of_votes_three_have_to_agree(stored: bool, tmp_path: Path) -> None:
    votes = [{"answer": text} for text in ["cat", "kitten", "kitten", "dog", "dog", "kitten"]]
    benchmark = of_row(tmp_path, answers=votes)
    if stored:
        benchmark = items_as_benchmark("t", items_table(benchmark).to_pylist())
    assert also_right(benchmark.examples[0]) == ("kitten",)
    assert outcome(benchmark, "dog") == "wrong"


def test_options_and_answers_from_elsewhere_have_no_others(tmp_path: Path) -> None:
    assert also_right(of_row(tmp_path, answer=["A", "B"], options=["x", "y"]).examples[0]) == ()
    assert also_right(of_row(tmp_path, answer="dog", answers=["cat", "kitten"]).examples[0]) == ()


@pytest.mark.parametrize(
    ("column", "key"),
    [("Correct Answer", "(b)"), ("correct_option", "B"), ("correct_choice_idx", 1)],
)
def test_published_names_of_key_columns(column: str, key: Any, tmp_path: Path) -> None:
    benchmark = of_row(tmp_path, choices=["CT", "MRI"], **{column: key})
    assert benchmark.examples[0].answer == "MRI"
