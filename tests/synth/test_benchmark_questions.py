"""Which items ask a benchmark's question and give its answer, and which ask something else."""

from __future__ import annotations

import pytest
from made_items import five, item

from heldout.benchmark import Benchmark, Example
from heldout.image import FileOnDisk, ImageRef
from heldout.synth._benchmark_questions import (
    EDITED_WORDS,
    REWORDED_WORDS,
    WHOLE_ITEM,
    WORDS,
    BenchmarkQuestions,
    QuestionMatch,
)

pytest.importorskip("wordllama", reason="the extra 'text'")

PLANES = ("axial", "coronal", "sagittal", "oblique", "lateral")
ASKED: list[tuple[str, str, tuple[str, ...]]] = [
    ("What is under the right hemidiaphragm?", "Free air", ()),
    ("How would you describe the spleen abnormality", "hypodense lesion", ()),
    ("What is the T1 signal of the left thalamic mass?", "isointense", ()),
    ("Is there a fracture of the left femur?", "yes", ()),
    *((f"Is there {what} in the picture?", "yes", ()) for what in ("gas", "fluid", "a tube")),
    *[("Which plane is it?", "axial", ())] * 4,
    ("Which plane is the picture in?", "axial", PLANES),
    ("What fills the anterior part of the bladder without contrast?", "Blood clot", ()),
    *((f"How many {what} are there?", "2", ()) for what in ("ribs", "stents", "drains", "clips")),
]


@pytest.fixture(scope="module")
def questions() -> BenchmarkQuestions:
    return _questions("wordllama")


def _questions(encoder: str | None) -> BenchmarkQuestions:
    examples = [
        Example(str(n), (ImageRef(f"{n}.png", FileOnDisk(f"{n}.png")),), question, options, answer)
        for n, (question, answer, options) in enumerate(ASKED)
    ]
    return BenchmarkQuestions(Benchmark("asked", tuple(examples)), encoder)


def _match(
    questions: BenchmarkQuestions, question: str, answer: str, options: tuple[str, ...] = ()
) -> QuestionMatch | None:
    options = options or five(answer, "another one", "a third", "a fourth", "the last")
    draft = item("x", question, options, "ABCDE"[options.index(answer)])
    return next(questions.compare([draft]), None)


@pytest.mark.parametrize(
    ("question", "answer", "relation"),
    [
        ("What is under the right hemidiaphragm?", "free air", WORDS),
        ("what is under the  RIGHT hemidiaphragm", "Free air.", WORDS),
        ("How would you describe this spleen abnormality?", "hypodense lesions", EDITED_WORDS),
        ("What is beneath the right hemidiaphragm?", "free air", REWORDED_WORDS),
        ("How can the abnormality of the spleen be described?", "hypodense lesion", REWORDED_WORDS),
        ("Is there a fracture of the left femur?", "yes", WORDS),
    ],
)
def test_question_and_answer_in_these_or_other_words_are_found(
    questions: BenchmarkQuestions, question: str, answer: str, relation: str
) -> None:
    found = _match(questions, question, answer)
    assert found is not None and found.relation == relation and not found.stock


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is under the right hemidiaphragm?", "free fluid"),
        ("What is seen above the left kidney?", "free air"),
        ("What is the T2 signal of the left thalamic mass?", "isointense"),
        ("Is there a fracture of the right femur?", "yes"),
        ("Which vessel supplies the spleen?", "splenic artery"),
        ("What is under the left hemidiaphragm?", "free air"),
        ("What is found beneath the left hemidiaphragm?", "free air"),
        ("What fills the posterior part of the bladder without contrast?", "blood clot"),
        ("What fills the anterior part of the bladder with contrast?", "blood clot"),
    ],
)
def test_another_answer_or_another_subject_is_kept(
    questions: BenchmarkQuestions, question: str, answer: str
) -> None:
    assert _match(questions, question, answer) is None


@pytest.mark.parametrize(
    ("question", "answer"), [("Which plane is it?", "axial"), ("How many clips are there?", "2")]
)
def test_a_question_asked_of_many_images_is_a_stock_question(
    questions: BenchmarkQuestions, question: str, answer: str
) -> None:
    found = _match(questions, question, answer)
    assert found is not None and found.stock


def test_a_stock_question_with_all_its_options_is_a_copy(questions: BenchmarkQuestions) -> None:
    found = _match(questions, "Which plane is the picture in?", "axial", PLANES[::-1])
    assert found is not None and found.relation == WHOLE_ITEM and not found.stock
    found = _match(questions, "Which plane is the picture in?", "coronal", PLANES)
    assert found is None


def test_every_copy_is_found_however_many_there_are(questions: BenchmarkQuestions) -> None:
    options = five("free air", "another one", "a third", "a fourth", "the last")
    copies = [item(str(n), str(ASKED[0][0]), options) for n in range(30)]
    assert {match.item for match in questions.compare(copies)} == {str(n) for n in range(30)}


def test_without_an_encoder_rewordings_are_missed_and_copies_are_not() -> None:
    questions = _questions(None)
    found = _match(questions, "What is under the right hemidiaphragm?", "free air")
    assert found is not None and found.relation == WORDS
    assert _match(questions, "What is beneath the right hemidiaphragm?", "free air") is None
