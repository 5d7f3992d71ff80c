"""What code alone sees in an item, criterion by criterion, and what it leaves to others."""

from __future__ import annotations

import dataclasses

import pytest
from made_items import five, item
from test_fence import figure

from heldout.synth import Draft
from heldout.synth._benchmark_questions import anatomy_of, archetype_of
from heldout.synth._mechanical import check_by_code

PAPER = figure(
    "CT of a 41-year-old man with a mass of 3.5 cm in the liver.", ("She was 12 years old.",)
)
ORGANS = five("liver", "spleen", "kidney", "heart", "lung")


def says(criterion: str, draft: Draft) -> bool | None:
    return check_by_code(draft, PAPER)[criterion].met


def asking(question: str, options: tuple[str, ...] = ORGANS, answer: str = "A") -> Draft:
    return item("x", question, options, answer)


@pytest.mark.parametrize(
    ("criterion", "draft", "met"),
    [
        ("self-contained", asking("As the caption says, which organ is it?"), False),
        ("self-contained", asking("Which organ is shown in Figure 2b?"), False),
        ("self-contained", asking("According to the study, which organ is it?"), False),
        ("self-contained", asking("Which organ is shown?"), None),
        ("vocabulary", asking("Which organ is shown in this 41-year-old man?"), True),
        ("vocabulary", asking("Which organ is shown in this 42-year-old man?"), False),
        ("vocabulary", asking("Which organ has the mass of 3.5 cm?"), True),
        ("vocabulary", asking("Which organ has the mass of 4.5 cm?"), False),
        ("vocabulary", asking("Which organ is shown?"), None),
        ("diagnosis-leak", asking("Which part of the liver is shown?"), False),
        ("diagnosis-leak", asking("Is it liver or spleen?"), None),  # both stand there
        ("diagnosis-leak", asking("Which organ is shown?"), None),
        ("single-answer", asking("Which?", five("liver", "Liver", "a b", "c d", "e f")), False),
        ("option-type", asking("Which?", five("liver", "None", "kidney", "heart", "lung")), False),
        ("option-type", asking("Which?", five("3 cm", "liver", "kidney", "heart", "lung")), False),
        ("option-type", asking("Which?", five("3 cm", "4 cm", "5 cm", "6 cm", "7 cm")), None),
        ("parallel", asking("Which?", five("x" * 60, *["y" * 20] * 4)), False),
        ("parallel", asking("Which?", five("x" * 24, *["y" * 20] * 4)), None),
        ("concision", asking("Which organ is shown?"), True),
        ("concision", asking("Look. Then look again. Which organ is it?"), False),
        ("concision", asking("word " * 36 + "?"), False),
        ("concision", asking("Seen by Dr. Lee, e.g. at 3.5 cm. Which organ is it?"), True),
        ("answer-field", asking("Which?"), True),
        ("answer-field", asking("Which?", five("liver", "", "kidney", "heart", "lung")), False),
        ("forbidden-terms", asking("In this context, which organ is it?"), True),
        ("forbidden-terms", asking("Which organ is it?"), False),
        ("forbidden-terms", asking("Which?", five("by context", "b", "c", "d", "e")), True),
        ("multiple-keys", asking("Which?", five("liver", "Liver.", "a b", "c d", "e f")), True),
        ("multiple-keys", asking("Which?"), None),
        ("schema", asking("Which?"), True),
        ("schema", dataclasses.replace(asking("Which?"), extra={"extra_keys": "why"}), False),
    ],
)
def test_a_check_by_code(criterion: str, draft: Draft, met: bool | None) -> None:
    assert says(criterion, draft) is met


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Which imaging modality is shown?", "modality"),
        ("Which lobe is affected?", "localisation"),
        ("What is the most likely diagnosis?", "diagnosis"),
        ("What is the next best step?", "next-step"),
        ("Which grade has the tumour?", "grading"),
        ("Which abnormality is visible?", "finding"),
        ("Which staining intensity do the cells have?", "attribute"),
    ],
)
def test_the_kind_of_a_question(question: str, kind: str) -> None:
    assert archetype_of(asking(question)) == kind


def test_anatomy_is_that_of_the_question_before_that_of_the_caption() -> None:
    plain = five("a", "b", "c", "d", "e")
    asked = asking("Which part of the kidney is enlarged?", plain)
    assert anatomy_of(asked, PAPER) == "kidney and urinary"
    assert anatomy_of(asking("Which sign is it?", plain), PAPER) == "liver and biliary"
    drawn = dataclasses.replace(PAPER, primary="rendered")
    assert anatomy_of(asking("What colour is the heart?"), drawn) == "other"
