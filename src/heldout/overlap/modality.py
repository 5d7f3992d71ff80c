"""What leaked beside the picture: nothing, the question, or the question with its answer.

Compared field by field and whole, never by substring: "no" is not an answer found in "not sure".
A free caption is text nobody has compared yet, so it stays *image only*.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from heldout.benchmark import normal
from heldout.corpus import CorpusItem


class Modality(StrEnum):
    """What of an item stands in a corpus, from the gravest down; matches hold the first three or none."""

    FULL = "full"  # image, question and answer
    IMAGE_AND_QUESTION = "image and question"
    IMAGE_ONLY = "image only"
    TEXT_ONLY = "text only"
    SOURCE_ONLY = "source only"
    NONE = "none"


#: for sorting: the gravest first
GRAVEST: dict[str, int] = {modality: place for place, modality in enumerate(Modality)}
# A bare letter or position stands for an option nobody can see here: it contradicts nothing.
_POINTER = re.compile(r"\(?[a-j]\)?|\d{1,2}")
_LABEL_WORDS = 4  # longer answers without a question are captions, and captions differ


class TextRelation(NamedTuple):
    modality: Modality
    label_relation: str  # same, different, unknown


def relate_text(question: str, answer: str, item: CorpusItem) -> TextRelation:
    """``question`` and ``answer`` are the benchmark item's, normalised.

    A corpus item can carry several questions and several accepted answers: the gravest leak counts.
    """
    pairs = [(item.question, item.answer), *item.also]
    text_relations = [_relate(question, answer, normal(q), normal(a)) for q, a in pairs]
    return min(
        text_relations,
        key=lambda text_relation: (
            GRAVEST[text_relation.modality],
            text_relation.label_relation != "same",
        ),
    )


def _relate(question: str, answer: str, their_question: str, theirs: str) -> TextRelation:
    if question != their_question:
        return TextRelation(Modality.IMAGE_ONLY, "unknown")
    seen = Modality.IMAGE_AND_QUESTION if question else Modality.IMAGE_ONLY
    if not theirs or not answer:
        return TextRelation(seen, "unknown")
    if theirs == answer:
        return TextRelation(Modality.FULL, "same")
    if _POINTER.fullmatch(theirs) and not _POINTER.fullmatch(answer):
        return TextRelation(seen, "unknown")
    # Without a question (classification, captions) the label itself is what can leak.
    if not question and max(len(answer.split()), len(theirs.split())) > _LABEL_WORDS:
        return TextRelation(seen, "unknown")
    return TextRelation(seen, "different")
