"""What a pair of texts is: which fields agree, what the relation is called, how much it counts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rapidfuzz.distance import Levenshtein

from heldout.overlap.text.edits import EDITED, OTHER, RENUMBERED, SAME, compare_wording
from heldout.overlap.text.fields import Document, ItemTexts
from heldout.overlap.text.index import Entry
from heldout.overlap.text.normalise import mask

SAME_ITEM: Final = "same item"
SAME_QUESTION: Final = "same question"
SAME_CAPTION: Final = "same caption"
SAME_OPTIONS: Final = "same options"
CONTAINED: Final = "contained"
PARAPHRASE: Final = "paraphrase candidate"
SAME_SOURCE = "same source"
WHOLE = 0.8  # containment from which on a text counts as being there
TEMPLATE = 0.8  # edit similarity from which on another word makes another question
_POINTER = re.compile(r"\(?[a-j]\)?|\d{1,2}")  # a letter stands for an option nobody can see


class TextRelation(NamedTuple):
    field: str
    relation: str
    answer: str  # same, different, unknown
    degree: str  # hard, soft, none: none never counts as evidence by itself


def relate(
    method: str,
    entry: Entry,
    item: ItemTexts,
    document: Document,
    similarity: float,
    *,
    template: bool = False,
    apart: bool = False,
) -> TextRelation:
    """``template``: the n-gram pass saw that words between the shared runs are others.

    ``apart``: of those that ask in these words, numbers and answer tell the item apart.
    """
    answer = _answers(item.answer, document.answers)
    options = bool(item.options) and item.options == document.options
    whole = options or not item.options or not document.options  # unless other options are given
    relation = _relation(method, entry, document, answer, whole)
    relation = OTHER if template else relation
    parts = [entry.field] if entry.field != "question" or not options else ["question+options"]
    if answer == "same":
        parts.append("answer")
    worth = degree_of(
        relation, answer, similarity, generic=entry.generic, short=entry.short, apart=apart
    )
    return TextRelation("+".join(parts), relation, answer, worth)


def _relation(method: str, entry: Entry, document: Document, answer: str, whole: bool) -> str:
    if entry.field == "options":
        return SAME_OPTIONS
    if method == "ngram":
        return RENUMBERED if _renumbered(entry.text, document.text) else CONTAINED
    wording = compare_wording(entry.text, document.text)
    if wording == SAME:
        if entry.field == "caption":
            return SAME_CAPTION
        return SAME_ITEM if answer == "same" and whole else SAME_QUESTION
    if wording == RENUMBERED:
        return RENUMBERED
    if method == "embedding":
        # Nearly the same letters, and yet another word: a template, not a paraphrase.
        alike = Levenshtein.normalized_similarity(mask(entry.text), mask(document.text))
        return OTHER if wording == OTHER and alike >= TEMPLATE else PARAPHRASE
    return wording  # edited, or another subject


def degree_of(
    relation: str,
    answer: str,
    similarity: float,
    *,
    generic: bool,
    short: bool,
    apart: bool = False,
) -> str:
    """A text the benchmark asks of several pictures, or one that says little, is no evidence.

    One that it asks with other numbers is soft where those numbers and the item's own answer stand there:
    whoever uses the same template may come upon the same numbers.

    A whole question is hard without its answer, too: what that is worth is for the claim to say.
    """
    if generic:
        return "soft" if apart and relation == SAME_ITEM else "none"
    if relation in (OTHER, SAME_OPTIONS):
        return "none"
    if relation == SAME_ITEM:
        return "soft" if short else "hard"
    if short:
        return "none"
    if relation in (RENUMBERED, PARAPHRASE, EDITED):
        return "none" if answer == "different" else "soft"
    if relation == CONTAINED and similarity < WHOLE:
        return "soft"
    return "soft" if answer == "different" else "hard"


def _renumbered(ours: str, theirs: str) -> bool:
    """Runs of words have their numbers masked. Where a document is the text and little more, the numbers
    are compared, too; a page has numbers of its own, and is taken as it is."""
    return len(theirs) <= 2 * len(ours) and compare_wording(ours, theirs) == RENUMBERED


def _answers(ours: str, theirs: tuple[str, ...]) -> str:
    if not ours or not theirs:
        return "unknown"
    if ours in theirs:
        return "same"
    if not _POINTER.fullmatch(ours) and all(_POINTER.fullmatch(answer) for answer in theirs):
        return "unknown"
    return "different"
