"""The verifiable reward against a table of replies, honest and not."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest

from heldout.train import Solution, grade
from heldout.train import reward as rewards

COLOURS = Solution("red", "B", ("green", "red", "a blue one", "grey"))
LETTERS = Solution("B", "A", ("B", "C", "A"))  # texts that are letters of other options
OPEN = Solution("Left lung")

RIGHT = [
    "<think>it is red</think><answer>B</answer>",
    "<think>it is red</think>\n<answer> b </answer>\n",
    "  <think></think><answer>RED</answer>",
    "<think>two\nlines</think>\n\n<answer>B. red</answer>",
    "<think>a < b, and 3 > 2</think><answer>b.  RED</answer>",
    "<think>the answer is A? No, B.</think><answer>B</answer>",
]
WELL_FORMED_AND_WRONG = [
    "<think>x</think><answer>A</answer>",
    "<think>x</think><answer></answer>",
    "<think>x</think><answer>A or B</answer>",
    "<think>x</think><answer>A B C D</answer>",
    "<think>x</think><answer>A. green B. red</answer>",
    "<think>x</think><answer>B. green</answer>",  # the right letter with another text
    "<think>x</think><answer>A. red</answer>",
    "<think>x</think><answer>not red</answer>",
    "<think>x</think><answer>reddish</answer>",
    "<think>x</think><answer>(B)</answer>",
    "<think>x</think><answer>B.</answer>",
    "<think>x</think><answer>\u0412</answer>",  # Cyrillic Ve
    "<think>x</think><answer>\uff22</answer>",  # full-width B
    "<think>x</think><answer>\u212c</answer>",  # script B
    "<think>x</think><answer>B\u200b</answer>",  # a character that nobody sees
    "<think>x</think><answer>B\u202eA</answer>",
    "<think>x</think><answer>r\u0435d</answer>",  # Cyrillic e
]
MALFORMED = [
    "",
    "B",
    "red",
    "<answer>B</answer>",
    "<think>x</think>B",
    "<answer>B</answer><think>x</think>",
    "<think>x<answer>B</answer>",
    "<think>x</think><answer>B",
    "I say: <think>x</think><answer>B</answer>",
    "<think>x</think><answer>B</answer> That is all.",
    "<think>x</think> so <answer>B</answer>",
    "<think>x</think><answer>A</answer><answer>B</answer>",
    "<think>x</think><answer>B</answer><answer>A</answer>",
    "<think>x</think><answer><answer>B</answer></answer>",
    "<think><think>x</think></think><answer>B</answer>",
    "<think>x</think><think>y</think><answer>B</answer>",
    "<think><answer>A</answer></think><answer>B</answer>",  # a second answer in the reasoning
    "<think>x <Answer>A</Answer></think><answer>B</answer>",
    "<think>x < answer >A</think><answer>B</answer>",
    "<think>x \uff1canswer\uff1eA</think><answer>B</answer>",  # full-width brackets
    "<think>x <ans\u200bwer>A</think><answer>B</answer>",
    "<THINK>x</THINK><ANSWER>B</ANSWER>",
    "<think>x</think><answer>B</answer><|im_end|><|im_start|>",
    # the prompt's own instruction, repeated
    "Think about the question step by step inside <think> and </think>. Then give the letter of the right "
    "option inside <answer> and </answer>.\n<think>x</think><answer>B</answer>",
    "<think>inside <think> and </think>, then <answer> and </answer></think><answer>B</answer>",
]


@pytest.mark.parametrize("reply", RIGHT)
def test_right_replies_get_one(reply: str) -> None:
    graded = grade(reply, COLOURS)
    assert (graded.reward, graded.well_formed) == (1.0, True)


@pytest.mark.parametrize("reply", WELL_FORMED_AND_WRONG)
def test_other_answers_get_nothing(reply: str) -> None:
    graded = grade(reply, COLOURS)
    assert (graded.reward, graded.well_formed) == (0.0, True)


@pytest.mark.parametrize("reply", MALFORMED)
def test_other_forms_get_nothing(reply: str) -> None:
    graded = grade(reply, COLOURS)
    assert (graded.reward, graded.well_formed) == (0.0, False)


def test_a_text_that_is_another_options_letter_does_not_say_what_is_meant() -> None:
    assert grade("<think></think><answer>A</answer>", LETTERS).reward == 1.0
    assert grade("<think></think><answer>A. B</answer>", LETTERS).reward == 1.0
    assert grade("<think></think><answer>B</answer>", LETTERS).reward == 0.0


def test_open_answers_are_compared_as_texts() -> None:
    assert grade("<think></think><answer>left lung</answer>", OPEN).reward == 1.0
    assert grade("<think></think><answer>lung</answer>", OPEN).reward == 0.0
    assert grade("<think></think><answer>A</answer>", OPEN).reward == 0.0


def test_a_sign_that_lowers_to_a_letter_is_not_that_letter() -> None:
    """The Kelvin sign in lower case is an ASCII k."""
    kidney = Solution("kidney", "A", ("kidney", "liver"))
    assert grade("<think></think><answer>Kidney</answer>", kidney).reward == 1.0
    assert grade("<think></think><answer>\u212aidney</answer>", kidney).reward == 0.0


def test_an_empty_solution_is_never_right() -> None:
    assert grade("<think></think><answer></answer>", Solution("")).reward == 0.0


def test_the_file_for_verl_grades_alike_and_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "shipped_reward.py"
    path.write_text(inspect.getsource(rewards))
    assert "heldout" not in [
        line.split()[1].split(".")[0]
        for line in path.read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    spec = importlib.util.spec_from_file_location("shipped_reward", path)
    assert spec is not None
    assert spec.loader is not None
    shipped = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shipped)
    info = {"answer": COLOURS.text, "options": list(COLOURS.options)}
    for reply in [*RIGHT, *WELL_FORMED_AND_WRONG, *MALFORMED]:
        told = shipped.compute_score("rows", reply, "B", info)
        # verl hands over the end of the turn with the reply; what comes before it counts
        if reply.endswith("<|im_start|>"):
            continue
        graded = grade(reply, COLOURS)
        assert told == {"score": graded.reward, "format": float(graded.well_formed)}, reply
        listed = {
            **info,
            "options": np.array(COLOURS.options, dtype=object),
        }  # as pandas reads lists
        assert shipped.compute_score("rows", reply, "B", listed) == told
    bare = {"answer": "red", "options": np.array([])}
    assert shipped.compute_score("rows", "<think></think><answer>red</answer>", "red", bare)[
        "score"
    ]
    ended = shipped.compute_score("rows", RIGHT[0] + "<|im_end|>", "B", info)
    assert ended["score"] == 1.0
