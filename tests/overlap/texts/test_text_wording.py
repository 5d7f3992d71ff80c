"""An edited question is the same question; a template with another word in it is not."""

from __future__ import annotations

import pytest

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
