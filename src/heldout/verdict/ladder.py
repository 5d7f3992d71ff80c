"""The evidence ladder for matches: source overlap < near-duplicate < same image < same image and answer."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import polars as pl

from heldout.cure.leaks import Grade, evidence_of, leaks_of
from heldout.overlap.judged import read_matches, recognised
from heldout.overlap.text.pictures import ANOTHER, BESIDE, UNCOMPARED
from heldout.overlap.text.relation import SAME_ITEM
from heldout.store import Run

BY_DIGEST, BY_REGISTRATION, BY_PEOPLE = "digest", "registration", "people"
OTHER_SUBJECT = "same view, other subject"


class Rung(IntEnum):
    """How much a match proves. Words stand beside the ladder: they show no picture."""

    SOURCE_OVERLAP = 1
    WORDS_BESIDE_ANOTHER = 2
    WORDS_UNCOMPARED = 3
    NEAR_DUPLICATE = 4
    WORDS_AND_ANSWER = 5
    SAME_IMAGE = 6
    SAME_IMAGE_AND_ANSWER = 7

    @property
    def words(self) -> str:
        """As files name it, whose values people script against."""
        return _WORDS[self]


#: what a claim calls survives: proven, nobody has to look again
PROVEN = frozenset({Rung.WORDS_AND_ANSWER, Rung.SAME_IMAGE, Rung.SAME_IMAGE_AND_ANSWER})
_WORDS = {
    Rung.SOURCE_OVERLAP: "source overlap",
    Rung.WORDS_BESIDE_ANOTHER: "question and answer beside another picture",
    Rung.WORDS_UNCOMPARED: "question and answer, pictures that could not be compared",
    Rung.NEAR_DUPLICATE: "undecided near-duplicate",
    Rung.WORDS_AND_ANSWER: "question and answer without the image",
    Rung.SAME_IMAGE: "same image",
    Rung.SAME_IMAGE_AND_ANSWER: "same image and answer",
}
_OF_GRADE = {
    Grade.FULL: Rung.SAME_IMAGE_AND_ANSWER,
    Grade.COPY: Rung.SAME_IMAGE,
    Grade.TEXT: Rung.WORDS_AND_ANSWER,
    Grade.UNDECIDED: Rung.NEAR_DUPLICATE,
}
# Whole items in words, beside a picture that is not known to be theirs.
_BESIDE = {ANOTHER: Rung.WORDS_BESIDE_ANOTHER, UNCOMPARED: Rung.WORDS_UNCOMPARED}
_TOLD = {
    Rung.SAME_IMAGE.words: "same image or transformed copy, no answer",
    Rung.SAME_IMAGE_AND_ANSWER.words: "same image or transformed copy, with answer",
}
ACTIONS = {
    Rung.SAME_IMAGE_AND_ANSWER: "remove",
    Rung.WORDS_AND_ANSWER: "remove",
    Rung.SAME_IMAGE: "down-weight, or report with and without",
    Rung.NEAR_DUPLICATE: "have people judge it",
    Rung.WORDS_UNCOMPARED: "make its pictures readable, and compare them",
    Rung.WORDS_BESIDE_ANOTHER: "keep; read whether it can be answered without its picture",
    Rung.SOURCE_OVERLAP: "keep; one source with the corpus",
}


class Standing(NamedTuple):
    """The highest rung one item reaches in one corpus, and the corpus item that proves it."""

    benchmark_id: str
    corpus: str
    corpus_id: str
    rung: Rung


def rung_told(words: str) -> str:
    """A rung as people read it: a name that sounds like equal files says what else stands on it."""
    return _TOLD.get(words, words)


def standings(run: Run) -> list[Standing]:
    """Every item that stands on the ladder, once per corpus, in the order of the items."""
    if not run.table_path("matches").exists():
        return []
    best: dict[tuple[str, str], Standing] = {}
    for one in _all(run):
        known = best.get((one.benchmark_id, one.corpus))
        if known is None or (-one.rung, one.corpus_id) < (-known.rung, known.corpus_id):
            best[one.benchmark_id, one.corpus] = one
    place = {row["benchmark_id"]: row["position"] for row in run.read_table("items").to_pylist()}
    return sorted(best.values(), key=lambda one: (place.get(one.benchmark_id, -1), one.corpus))


def shown_by(run: Run) -> dict[tuple[str, str], str]:
    """By (corpus, benchmark_id) of items whose picture leaked: the surest that shows it."""
    if not run.table_path("matches").exists():
        return {}
    how = (
        pl.when(pl.col("raters") > 0)
        .then(pl.lit(BY_PEOPLE))
        .when(pl.col("method").is_in(["bytes", "pixels"]))
        .then(pl.lit(BY_DIGEST))
        .otherwise(pl.lit(BY_REGISTRATION))
    )
    copies = recognised(read_matches(run)).select("corpus", "benchmark_id", how.alias("how"))
    found: dict[tuple[str, str], str] = {}
    for surest in (BY_PEOPLE, BY_REGISTRATION, BY_DIGEST):
        mine = copies.filter(pl.col("how") == surest).select("corpus", "benchmark_id")
        found |= dict.fromkeys(mine.iter_rows(), surest)
    return found


def actions(run: Run) -> Iterator[dict[str, Any]]:
    """What to do about each item, as one row per item and corpus."""
    for one in standings(run):
        yield {
            "benchmark_id": one.benchmark_id,
            "action": ACTIONS[one.rung],
            "evidence": one.rung.words,
            "corpus": one.corpus,
            "corpus_id": one.corpus_id,
        }


def _all(run: Run) -> Iterator[Standing]:
    for identifier, item in leaks_of(run).items():
        for leak in item.leaks:
            if leak.grade in _OF_GRADE:
                corpus, corpus_id = leak.corpus_item
                yield Standing(identifier, corpus, corpus_id, _OF_GRADE[leak.grade])
            elif leak.row["relation"] == SAME_ITEM and leak.grade is Grade.SIMILAR:
                rung = _BESIDE.get(str(evidence_of(leak.row).get(BESIDE)))
                if rung is not None:
                    yield Standing(identifier, *leak.corpus_item, rung)
    for row in read_matches(run).iter_rows(named=True):
        if row["relation"] == OTHER_SUBJECT:
            yield Standing(
                row["benchmark_id"], row["corpus"], row["corpus_id"], Rung.SOURCE_OVERLAP
            )
