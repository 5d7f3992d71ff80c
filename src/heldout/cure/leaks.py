"""What each benchmark item leaked as: the matches of a run, sorted by how grave they are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from heldout.overlap.judged import (
    DISMISSED_ALONE,
    item_words,
    label_beside,
    not_agreed,
    read_matches,
)
from heldout.overlap.judged_texts import read_text_matches
from heldout.overlap.regrade import Bounds
from heldout.overlap.verify import NO_PICTURE
from heldout.store import Run

COPIES = ("same image", "transformed copy")
UNDECIDED = "undecided"
_FULL = "full"
# Relations of a text match that mean the same words, not merely the same subject.
_SAME_WORDS = ("same item", "same question", "same caption", "edited")
_WHOLE_ITEM = "same item"  # question and answer, and options where both sides have them


class Grade(IntEnum):
    """How much of an item a match shows; higher is graver."""

    SIMILAR = 1  # words like its own: reworded, short, in part; people must read them
    WORDING = 2  # its own words without its answer: anybody may ask the same
    TEXT = 3  # its question and its answer word for word, without its image
    NEAR = 4  # a picture within the encoder's published degree, not shown to be a copy
    UNDECIDED = 5  # neither registration nor people decided
    COPY = 6  # its image
    FULL = 7  # its image, its question and its answer


#: What a claim calls *survives*: nobody has to look again.
PROVEN = frozenset({Grade.TEXT, Grade.COPY, Grade.FULL})

_REASONS = {
    Grade.FULL: "image, question and answer leaked",
    Grade.COPY: "image leaked",
    Grade.UNDECIDED: "undecided match",
    Grade.NEAR: "near-identical image",
    Grade.TEXT: "question and answer leaked without their image",
}
# What words that prove nothing are, by the relation of the pair.
_WORDS = {
    "same item": "question and answer, short, or beside another or an unread picture",
    "same question": "question without its answer",
    "same caption": "caption",
    "contained": "words inside a longer text",
}


@dataclass(frozen=True)
class Leak:
    """One match of one item. ``row`` is the run's, with its evidence."""

    grade: Grade
    row: Mapping[str, Any]

    @property
    def reason(self) -> str:
        if self.grade is Grade.UNDECIDED and (why := _not_agreed(self.row)):
            return why
        if self.grade in _REASONS:
            return _REASONS[self.grade]
        return _WORDS.get(str(self.row["relation"]), "words like its own")

    @property
    def corpus_item(self) -> tuple[str, str]:
        return str(self.row["corpus"]), str(self.row["corpus_id"])


@dataclass
class ItemLeaks:
    leaks: list[Leak] = field(default_factory=list)

    @property
    def gravest(self) -> Leak:
        """The worst match; among equals the most similar, then the first by corpus and id."""
        return min(
            self.leaks, key=lambda leak: (-leak.grade, -_similarity(leak.row), leak.corpus_item)
        )

    @property
    def grade(self) -> Grade:
        return self.gravest.grade

    @property
    def label(self) -> str:
        """How the leaked label relates to the benchmark's: same, different, conflicting, unknown.

        Of pictures that are only near it is the nearest one's; beside a copy they say nothing.
        """
        if self.grade is Grade.NEAR:
            near = (leak.row for leak in self.leaks if leak.grade is Grade.NEAR)
            return str(max(near, key=_similarity)["label_relation"])
        found = {str(leak.row["label_relation"]) for leak in self.leaks if leak.grade > Grade.NEAR}
        known = found & {"same", "different"}
        return "conflicting" if len(known) == 2 else known.pop() if known else "unknown"


def leaks_of(run: Run, bounds: Bounds | None = None) -> dict[str, ItemLeaks]:
    """Every item with a match that says anything, by its id.

    ``bounds``: degrees of the search's encoder, in place of those the run was made with. They also grade
    pairs that nobody can verify because the corpus holds embeddings alone, as the published study does.
    """
    found: dict[str, ItemLeaks] = defaultdict(ItemLeaks)
    words: dict[str, tuple[str, str]] | None = None
    for row in read_matches(run, bounds).to_dicts():
        grade = _image_grade(row)
        if grade is Grade.UNDECIDED and bounds is not None and _without_picture(row):
            grade = Grade.NEAR if row["degree"] in ("hard", "soft") else None
        if grade is not None:
            if grade is Grade.NEAR:
                words = item_words(run) if words is None else words
                beside = label_beside(row, words.get(row["benchmark_id"], ("", "")))
                row = {**row, "label_relation": beside}
            found[row["benchmark_id"]].leaks.append(Leak(grade, row))
    if run.table_path("text_matches").exists():
        for row in read_text_matches(run).to_dicts():
            item = found[row["benchmark_id"]]
            together = _with_image(row, item)
            if together is not None:
                item.leaks.append(together)
            elif (grade := text_grade(row)) is not None:
                told = {
                    **row,
                    "modality": "text only",
                    "label_relation": row.get("answer_relation"),
                }
                item.leaks.append(Leak(grade, told))
    return {identifier: item for identifier, item in found.items() if item.leaks}


def _with_image(row: Mapping[str, Any], item: ItemLeaks) -> Leak | None:
    """The full leak of an image whose corpus item asks the question in slightly other words."""
    if row["relation"] not in _SAME_WORDS or row.get("answer_relation") != "same":
        return None
    place = str(row["corpus"]), str(row["corpus_id"])
    for leak in item.leaks:
        if leak.grade is Grade.COPY and leak.corpus_item == place:
            method = f"{leak.row['method']} + text {row['method']}"
            seen = {"modality": _FULL, "label_relation": "same", "method": method}
            return Leak(Grade.FULL, {**leak.row, **seen})
    return None


def _image_grade(row: Mapping[str, Any]) -> Grade | None:
    if row["relation"] in COPIES:
        return Grade.FULL if row["modality"] == _FULL else Grade.COPY
    if row["relation"] == UNDECIDED or _not_agreed(row) == DISMISSED_ALONE:
        return Grade.UNDECIDED
    return Grade.NEAR if row["degree"] in ("hard", "soft") else None


def _without_picture(row: Mapping[str, Any]) -> bool:
    evidence = evidence_of(row)
    return evidence.get("unverified") == NO_PICTURE and "people" not in evidence


def _not_agreed(row: Mapping[str, Any]) -> str:
    return not_agreed(str(row["relation"]), evidence_of(row))


def text_grade(row: Mapping[str, Any]) -> Grade | None:
    """What a text match is worth by itself, as the text claim says it; None where it is no evidence.

    A degree grades a pair of texts, and a whole question is hard without its answer, too. Only with
    its answer it survives in a claim: a stock question stands on many pages.
    """
    if row["method"] == "provenance" or row["degree"] == "none":
        return (
            None  # the name of a source is a hint where to look, and its words are compared anyway
        )
    if row["degree"] == "soft":
        return Grade.SIMILAR
    return Grade.TEXT if row["relation"] == _WHOLE_ITEM else Grade.WORDING


def evidence_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A match's evidence; what is not JSON is kept as text."""
    try:
        value = json.loads(row.get("evidence") or "{}")
    except ValueError:
        return {"text": row["evidence"]}
    return value if isinstance(value, dict) else {"text": value}


def _similarity(row: Mapping[str, Any]) -> float:
    value = row.get("similarity")
    return float(value) if value is not None else 0.0
