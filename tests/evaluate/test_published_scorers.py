"""Published scorers do what their authors' scripts do, on replies on which they differ from us."""

from __future__ import annotations

import pytest

from heldout.benchmark.grading import grade
from heldout.evaluate.scorers import SCORERS, llava_choice
from heldout.model.asking.forms import Question

OPTIONS = ("No", "Left lung", "Right lung")
QUESTION = Question("1", "original", "Where?", (), OPTIONS, (0, 1, 2), "B")


@pytest.mark.parametrize(
    ("reply", "strict", "medvlthinker", "substring"),
    [
        ("<think>x</think><answer>B</answer>", True, True, True),
        ("<answer>b. left lung</answer>", True, True, True),
        ("<answer>Left lung</answer>", True, True, True),
        ("<answer>B. Left lung.</answer>", True, False, True),  # a closing full stop
        ("<answer>B. Left lung\nbecause of …</answer>", True, True, True),  # its first line counts
        ("<answer>(B)</answer>", True, False, False),
        ("So the answer is: B", True, True, True),
        ("The answer is B.", True, False, False),
        ("<answer>not the left lung</answer>", False, False, True),  # a substring of the opposite
        ("<answer>Left lung or right lung</answer>", False, False, True),
        ("<answer>C</answer>", False, False, False),
        ("", False, False, False),
    ],
)
def test_medvlthinker(reply: str, strict: bool, medvlthinker: bool, substring: bool) -> None:
    assert (grade(reply, "B", OPTIONS).outcome == "right") is strict
    assert SCORERS["medvlthinker"](reply, QUESTION).right is medvlthinker
    assert SCORERS["medvlthinker-substring"](reply, QUESTION).right is substring


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("B", True),
        ("(B) left", True),
        ("Option B", True),
        ("the answer is b", True),
        ("Both lungs", True),  # the first letter of a word is taken for an option's
        ("C", False),
        ("", False),
        ("(", False),
        ("It is B", False),
    ],
)
def test_mmstar(reply: str, right: bool) -> None:
    assert SCORERS["mmstar"](reply, QUESTION).right is right


@pytest.mark.parametrize(
    ("reply", "right"), [("B.", True), ("b", True), ("B. Left lung", False), ("(B)", False)]
)
def test_realworldqa(reply: str, right: bool) -> None:
    assert SCORERS["realworldqa"](reply, QUESTION).right is right


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("B", "B"),
        ("B. Left lung", "B"),
        ("So. The answer is C.", "C"),
        ("The answer is A. No, wait. The answer is B.", "A"),  # the first one counts
        ("The answer is G.", None),
        ("I do not know", None),
    ],
)
def test_llava_reads_the_first_statement(reply: str, read: str | None) -> None:
    assert llava_choice(reply) == read


def test_an_open_answer_is_compared_with_its_text() -> None:
    question = Question("1", "original", "Which?", gold="spleen")
    assert SCORERS["medvlthinker"]("<answer>Spleen</answer>", question).right
    assert not SCORERS["medvlthinker"]("<answer>the spleen</answer>", question).right


def test_a_runaway_reply_is_read_in_a_moment() -> None:
    """A million opening tags: without a limit the pattern looks for an end after each of them."""
    assert not SCORERS["medvlthinker"]("<answer>" * 1_000_000, QUESTION).right


def test_prose_about_choices_is_no_statement() -> None:
    """LLaVA's replies quote definitions of fallacies before they answer."""
    reply = (
        "bandwagon fallacy | assumes the popular choice is always the best choice\nThe answer is B."
    )
    assert grade(reply, "B", OPTIONS).outcome == "right"
    assert grade("The popular choice is always the best.", "B", OPTIONS).outcome == "unparsed"
    assert grade("The answer is unclear. The answer is B.", "B", OPTIONS).outcome == "unparsed"
