"""An edited question is the same question; a template with another word in it is not."""

from __future__ import annotations

import pytest

from heldout.overlap.texts._questions import (
    is_program,
    other_subject,
    same_amounts,
    same_content,
)
from heldout.overlap.texts.edits import EDITED, OTHER, RENUMBERED, SAME, compare_wording


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("Is the lung healthy?", "is the LUNG  healthy", SAME),
        ("Is there a fracture of the femur?", "Is there any fracture of femur?", EDITED),
        ("Is there a fracture of the femur?", "Is there a frcature of the femurs?", EDITED),
        ("Is an x-ray shown?", "Is an xray shown?", EDITED),
        ("What is seen in the lung?", "What is seen in te lung?", EDITED),
        ("Is this a T1 weighted image?", "Is this a T2 weighted image?", RENUMBERED),
        ("Is the left femur fractured?", "Is the right femur fractured?", OTHER),
        ("Is the patient symptomatic?", "Is the patient asymptomatic?", OTHER),
        ("Is the lung healthy?", "Is the lung not healthy?", OTHER),
        ("Is the lung healthy?", "Is the lung unhealthy?", OTHER),
        ("Is it on the left?", "Is it no the left?", OTHER),
        ("Is the density increased?", "Is the density decreased?", OTHER),
        ("Is there hyperdense blood?", "Is there hypodense blood?", OTHER),
        ("Was contrast given with CT?", "Was contrast given without CT?", OTHER),
        ("Are there cells in the brain?", "Are there cells in the liver?", OTHER),
        ("Is it open at the weekend?", "Is it open on a weekday?", OTHER),
        ("Is it an infarction?", "Is it infarcting?", EDITED),
        ("Is the structure large?", "Is the structrue large?", EDITED),
        ("左肺健康吗", "右肺健康吗", OTHER),
    ],
)
def test_what_differs_decides(one: str, other: str, relation: str) -> None:
    assert compare_wording(one, other) == relation
    assert compare_wording(other, one) == relation


def test_the_comparison_misses_two_words_one_letter_apart() -> None:
    """ilium is a bone, ileum a bowel: only a dictionary would know."""
    assert compare_wording("Is the ileum shown here?", "Is the ilium shown here?") == EDITED


def test_the_comparison_misses_synonyms() -> None:
    assert compare_wording("Is there a mass in it?", "Is there a tumor in it?") == OTHER


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Is there a green hexagon in the picture?", "Does the picture show a green hexagon?"),
        ("Is the pink ring larger than the star?", "Is the star smaller than the pink ring?"),
        ("How many yellow stars are there?", "Count the yellow stars."),
        ("What is the shape of the green object?", "The green object has which shape?"),
        ("Where is the star relative to the ring?", "Seen from the ring, where does the star lie?"),
        (
            "With respect to the aorta, where is the mass?",
            "Where is the mass relative to the aorta?",
        ),
    ],
)
def test_questions_with_one_content(text: str, other: str) -> None:
    assert same_content(text, other)
    assert not other_subject(text, other)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("What shape is beside the blue diamond?", "Which shape lies next to the black diamond?"),
        ("Is the left lung clear?", "Would you call the right lung clear?"),
        ("Is the pink ring larger than the star?", "Is the star larger than the pink ring?"),
        (
            "Where is the green square relative to the green crescent?",
            "Where is the green crescent relative to the square?",
        ),
        ("Where is the star relative to the ring?", "Seen from the star, where does the ring lie?"),
        (
            "Where is the red star relative to the ring?",
            "Seen from the red ring, where does the star lie?",
        ),
    ],
)
def test_one_attribute_or_order_changed_is_another_question(text: str, other: str) -> None:
    assert other_subject(text, other)
    assert not same_content(text, other)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("How many green hexagons are there?", "Where are the green hexagons?"),
        ("Is there a green hexagon?", "Is there not a green hexagon?"),
        ("Where is the star relative to the ring?", "Seen from the ring, where is the cross?"),
        ("Is there a hexagon?", "Does it show a hexagon?"),  # one word tells too little
        ("Is there a green hexagon?", "Is there a green hexagon on the paper?"),
        ("Is the lesion on the left side of the brain?", "On the left of the brain, is a lesion?"),
    ],
)
def test_questions_with_other_content(text: str, other: str) -> None:
    assert not same_content(text, other)
    assert not other_subject(text, other)


def test_a_program_is_told_from_a_question() -> None:
    program = 'def area(a, b):\n    """Return the area."""\n    return a * b'
    assert is_program(program)
    assert is_program(" ".join(program.split()))
    assert is_program('def area(a: float, b: float) -> float:\n    """The area of a room."""\n')
    assert is_program(
        'def area(a, b):\n    """The area of a room.\n\n    >>> area(2, 3)\n    6\n    """\n'
    )
    assert not is_program("If f(x) = 2x + 3 on [0, 1], return the value of f(0.5); is it >= 4?")
    assert same_amounts(f"{program} + 17 - 4", f"{program} - 99 + 21")
    assert not same_amounts("17 eggs and 4 hens", "99 eggs and 21 hens")
