"""The rubric: criteria and weights fixed by us, and the arithmetic of the acceptance rule.

The published pipeline lets the verifier choose titles and weights of its bonuses, so that two items may be
measured differently. Here all items have the same criteria; a verifier only says
whether each is met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from heldout.synth.settings import Normalisation

# Part of every verdict's identity. Raise it with any change of a criterion, a weight or what the
# verifier reads.
RUBRIC = "heldout-rubric/1"


class Category(StrEnum):
    ESSENTIAL = "essential"
    BONUS = "bonus"
    PENALTY = "penalty"


@dataclass(frozen=True)
class Criterion:
    """``rule`` is what the verifier reads. ``by_code``: our own check of it decides what code can
    decide."""

    key: str
    title: str
    category: Category
    weight: int
    rule: str
    by_code: bool = False


_E, _B, _P = Category.ESSENTIAL, Category.BONUS, Category.PENALTY
CRITERIA: tuple[Criterion, ...] = (
    Criterion(
        "self-contained",
        "Stem self-contained",
        _E,
        5,
        "The question can be understood from its own words and the images. It points to no caption, "
        "context, passage or paper, and uses no abbreviation that it does not explain.",
        by_code=True,
    ),
    Criterion(
        "vocabulary",
        "Vocabulary constraint",
        _E,
        5,
        "Every clinical fact in the question (age, sex, history, site, finding) is in the "
        "caption or the mentions, or plainly visible. A fact that is in either source passes.",
        by_code=True,
    ),
    Criterion(
        "diagnosis-leak",
        "Diagnosis leak",
        _E,
        5,
        "The question does not state the diagnosis or finding that it asks for, in these "
        "or other words.",
        by_code=True,
    ),
    Criterion(
        "single-answer",
        "Single correct option",
        _E,
        5,
        "Exactly one option is right by the images and the text, and it is the one given "
        "as the answer.",
        by_code=True,
    ),
    Criterion(
        "option-type",
        "Option type consistency",
        _E,
        5,
        "All options are of one kind: all diagnoses, all structures, all measurements with "
        "a unit, and so on. None is an empty placeholder.",
        by_code=True,
    ),
    Criterion(
        "clinical-validity",
        "Clinical validity",
        _E,
        5,
        "Terms, anatomy, modality, stain and mechanism are correct and supported by the sources.",
    ),
    Criterion(
        "image-text",
        "Image–text consistency",
        _E,
        5,
        "Question and answer agree with what the images show, and cannot be answered without them.",
    ),
    Criterion(
        "distractors",
        "Plausible distractors",
        _B,
        4,
        "Every wrong option is a near miss that differs from the answer in one respect.",
    ),
    Criterion(
        "parallel",
        "Parallel options",
        _B,
        3,
        "The options agree in grammar, length and detail; nothing but the content marks the answer.",
        by_code=True,
    ),
    Criterion(
        "concision",
        "Stem concision",
        _B,
        2,
        "The question has at most two sentences and 35 words, none of them needless.",
        by_code=True,
    ),
    Criterion(
        "clarity",
        "Clarity and focus",
        _B,
        2,
        "The question asks one thing and can be read in one way.",
    ),
    Criterion(
        "answer-field",
        "Answer field validity",
        _B,
        3,
        "The answer is one of the letters A to E; no option is empty or stands twice.",
        by_code=True,
    ),
    Criterion(
        "schema",
        "JSON schema compliance",
        _B,
        3,
        "The item has the keys question, options (A to E) and answer, and no others.",
        by_code=True,
    ),
    Criterion(
        "forbidden-terms",
        "Forbidden terms",
        _P,
        -2,
        "The question contains the word caption or context.",
        by_code=True,
    ),
    Criterion(
        "synonym-drift",
        "Synonym drift",
        _P,
        -1,
        "The question adds a specific clinical fact that is neither in the sources nor visible.",
    ),
    Criterion(
        "multiple-keys",
        "Multiple keys",
        _P,
        -2,
        "More than one option can be defended from the sources.",
        by_code=True,
    ),
    Criterion(
        "medical-inaccuracy",
        "Medical inaccuracy",
        _P,
        -2,
        "Something in question or options contradicts the sources.",
    ),
)
BY_KEY: Mapping[str, Criterion] = {criterion.key: criterion for criterion in CRITERIA}


def of_category(category: Category) -> tuple[Criterion, ...]:
    return tuple(criterion for criterion in CRITERIA if criterion.category is category)


@dataclass(frozen=True)
class RubricScore:
    """The result of one item: by criterion, whether it is met (a penalty is met when it applies)."""

    met: Mapping[str, bool]

    def points(self, category: Category) -> int:
        return sum(
            criterion.weight for criterion in of_category(category) if self.met[criterion.key]
        )

    @property
    def failed_essentials(self) -> tuple[str, ...]:
        return tuple(
            criterion.key
            for criterion in of_category(Category.ESSENTIAL)
            if not self.met[criterion.key]
        )

    def score(self, normalisation: Normalisation) -> float:
        """Points over attainable points, between 0 and 1."""
        counted: Sequence[Category] = (Category.BONUS,)
        if normalisation is Normalisation.WITH_ESSENTIALS:
            counted = (Category.ESSENTIAL, Category.BONUS)
        attainable = sum(
            criterion.weight for category in counted for criterion in of_category(category)
        )
        points = sum(self.points(category) for category in counted) + self.points(Category.PENALTY)
        return min(1.0, max(0.0, points / attainable))

    def accepted(self, normalisation: Normalisation, threshold: float) -> bool:
        return not self.failed_essentials and self.score(normalisation) >= threshold
