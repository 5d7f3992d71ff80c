"""How two pictures relate: the words that the column ``relation`` of the table matches holds."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from heldout.benchmark import normal
from heldout.corpus import CorpusItem
from heldout.overlap.texts._answers import compare_answers


class Relation(StrEnum):
    """From the surest copy down."""

    SAME_IMAGE = "same image"
    TRANSFORMED_COPY = "transformed copy"
    UNDECIDED = "undecided"
    LOOK_ALIKE = "look-alike"  # similar; neither a proven copy nor proven to be none
    OTHER_VIEW = "same source, other view"  # only people say this
    UNRELATED = "unrelated"


#: relations that make a picture a leaked one
COPIES: frozenset[Relation] = frozenset({Relation.SAME_IMAGE, Relation.TRANSFORMED_COPY})
#: relations of a picture that is, or may be, a copy
POSSIBLE_COPIES = COPIES | {Relation.UNDECIDED}
#: why registration leaves a pair undecided, where that is the pictures' doing
TOO_SMALL, TOO_PLAIN = "too small to decide", "too plain to decide"
#: why an aligned pair stays undecided: edited copies, or pictures that show something else in one place
IN_PART, CHANGED, RECOLOURED = "agrees in part", "changed in part", "recoloured in part"
#: these reasons as people read them
UNDECIDED_WORDS = {
    TOO_SMALL: "the pictures are too small to tell a copy from another picture",
    TOO_PLAIN: "too little detail is visible where the two overlap to tell a copy from another picture",
    IN_PART: "the aligned pictures agree only in part: an edited copy, or another picture",
    CHANGED: "the aligned pictures differ in one place: an edited copy, or another picture",
    RECOLOURED: "the aligned pictures differ in colour in some place: an edited copy, or another picture",
}
#: methods that prove a copy: an eye that sees none is mistaken
BY_DIGEST: tuple[str, ...] = ("bytes", "pixels")
#: for sorting: the surest first
SUREST: dict[str, int] = {relation: place for place, relation in enumerate(Relation)}


# What leaked beside the picture: nothing, the question, or the question with its answer.
#
# Compared field by field and whole, never by substring: "no" is not an answer found in "not sure".
# A free caption has not been compared yet, so the match stays *image only*.


class Modality(StrEnum):
    """What of an item is in a corpus, from the gravest down; matches hold the first three or none."""

    FULL = "full"  # image, question and answer
    IMAGE_AND_QUESTION = "image and question"
    IMAGE_ONLY = "image only"
    TEXT_ONLY = "text only"
    SOURCE_ONLY = "source only"
    NONE = "none"


#: for sorting: the gravest first
GRAVEST: dict[str, int] = {modality: place for place, modality in enumerate(Modality)}
# A bare letter or position refers to an option that is not shown here: it contradicts nothing.
_POINTER = re.compile(r"\(?[a-j]\)?|\d{1,2}")
_LABEL_WORDS = 4  # longer answers without a question are captions, and captions differ


class AnswerRelation(NamedTuple):
    modality: Modality
    label_relation: str  # same, different, unknown


def relate_text(question: str, answer: str, item: CorpusItem) -> AnswerRelation:
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


def _relate(question: str, answer: str, their_question: str, theirs: str) -> AnswerRelation:
    if question != their_question:
        return AnswerRelation(Modality.IMAGE_ONLY, "unknown")
    seen = Modality.IMAGE_AND_QUESTION if question else Modality.IMAGE_ONLY
    if not theirs or not answer:
        return AnswerRelation(seen, "unknown")
    compared = compare_answers(answer, theirs)
    if compared == "same" or (compared == "unknown" and question):
        return AnswerRelation(Modality.FULL, "same")  # "CT scan" for "CT" answers the same question
    if compared == "unknown" or (_POINTER.fullmatch(theirs) and not _POINTER.fullmatch(answer)):
        return AnswerRelation(seen, "unknown")
    # Without a question (classification, captions) the label itself is what can leak.
    if not question and max(len(answer.split()), len(theirs.split())) > _LABEL_WORDS:
        return AnswerRelation(seen, "unknown")
    return AnswerRelation(seen, "different")
