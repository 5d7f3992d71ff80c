"""What leaked beside the picture: nothing, the question, or the question with its answer.

Compared field by field and whole, never by substring: "no" is not an answer found in "not sure".
A free caption is text nobody has compared yet, so it stays *image only*.
"""

from __future__ import annotations

from typing import NamedTuple

from heldout.benchmark.normal import normal
from heldout.corpus import CorpusItem

IMAGE_ONLY = "image only"
IMAGE_AND_QUESTION = "image and question"
FULL = "full"  # image, question and answer


class TextRelation(NamedTuple):
    modality: str
    label_relation: str  # same, different, unknown


def relate_text(question: str, answer: str, item: CorpusItem) -> TextRelation:
    """``question`` and ``answer`` are the benchmark item's, normalised."""
    theirs = normal(item.answer)
    if question:
        if normal(item.question) != question:
            return TextRelation(IMAGE_ONLY, "unknown")
        if not theirs or not answer:
            return TextRelation(IMAGE_AND_QUESTION, "unknown")
        if theirs == answer:
            return TextRelation(FULL, "same")
        return TextRelation(IMAGE_AND_QUESTION, "different")
    # Without a question (classification, captions) the label itself is what can leak.
    if not theirs or not answer:
        return TextRelation(IMAGE_ONLY, "unknown")
    return TextRelation(FULL, "same") if theirs == answer else TextRelation(IMAGE_ONLY, "different")
