"""Closed questions as choices, on questions as they stand in SLAKE and VQA-RAD."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.evaluate.opening import alternatives, closed_as_choices, only_choices


@pytest.mark.parametrize(
    ("question", "answer", "options"),
    [
        (
            "Is the colon more prominent on the patient's right or left side?",
            "Left",
            ("Right", "Left"),
        ),
        (
            "Which is bigger in this image,liver or right kidney?",
            "Right Kidney",
            ("Liver", "Right kidney"),
        ),
        (
            "Which is the biggest in this image, spleen,lung, or liver?",
            "Liver",
            ("Spleen", "Lung", "Liver"),
        ),
        (
            "Are opacities on the left, right, or both sides of the lung?",
            "Both",
            ("Left", "Right", "Both"),
        ),
        ("Is this a T1 weighted or T2 weighted MRI image?", "T2", ("T1", "T2")),
        (
            "Is this a T1 weighted, T2 weighted, or FLAIR image?",
            "FLAIR",
            ("T1 weighted", "T2 weighted", "FLAIR"),
        ),
        ("Is this an MRI or a CT scan?", "MRI", ("MRI", "CT")),
        (
            "Which is bigger in this image, kidney or spleen?",
            "Liver",
            None,
        ),  # SLAKE 12130 has no right option
        ("Are there multiple or just 1 metastatic focus?", "one", None),
        ("Is there a mass?", "mass", None),
    ],
)
def test_alternatives_of_a_question(
    question: str, answer: str, options: tuple[str, ...] | None
) -> None:
    assert alternatives(question, answer) == options


def test_the_answer_is_not_told_by_its_capitals() -> None:
    """SLAKE writes answers with a capital and questions without: copied as it is, the key would show."""
    found = alternatives("Which organ is abnormal, heart or lung?", "Lung")
    assert found == ("Heart", "Lung")


def test_open_questions_are_dropped_with_the_reason() -> None:
    made = Benchmark(
        "mixed",
        (
            Example("1", question="Is it there?", answer="yes"),
            Example("2", question="What is it?", answer="a lung"),
            Example("3", question="Is it big?", answer="no", metadata={"answer_type": "OPEN"}),
            Example(
                "4", question="Where?", options=("left", "right"), answer="left", answer_index=0
            ),
        ),
    )
    closed = closed_as_choices(made)
    assert [(one.id, one.options, one.answer_index) for one in closed] == [
        ("1", ("Yes", "No"), 0),
        ("4", ("left", "right"), 0),
    ]
    assert [(one.id, one.reason) for one in closed.dropped] == [
        ("2", "open question"),
        ("3", "open question"),
    ]
    assert [one.id for one in only_choices(made)] == ["4"]


def test_the_real_closed_questions(shared_data: Path) -> None:
    """272 of VQA-RAD and 416 of SLAKE are called closed; one each has no readable alternatives."""
    slake = closed_as_choices(read_benchmark(f"{shared_data}/slake#split=test,lang=en"))
    rad = closed_as_choices(read_benchmark(f"{shared_data}/vqa_rad/mevf_testset.json"))
    for made, count in ((slake, 415), (rad, 271)):
        assert len(made) == count
        lost = [one for one in made.dropped if one.reason != "open question"]
        assert len(lost) == 1
        for item in made:
            assert item.answer_index is not None
            assert item.options[item.answer_index] == item.answer
