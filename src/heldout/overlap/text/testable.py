"""Which items a method could have found: those whose words would be evidence if a corpus held them.

"Nothing was found" says something about these items only. The rules are those of ``relate`` and of
``settle_degrees``, asked before there is a match.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from heldout.benchmark import Example
from heldout.overlap.text.edits import LONGEST, SHORTEST
from heldout.overlap.text.fields import item_texts
from heldout.overlap.text.index import Entry, text_entries
from heldout.overlap.text.normalise import common_questions, mask

NO_WORDS = "no words"
GENERIC = "the benchmark asks it several times, numbers aside"
COMMON = "the corpus mostly answers it otherwise"
SHORT = "too few or too common words"
LENGTH = f"fewer than {SHORTEST} or more than {LONGEST:,} characters"
_ORDER = (LENGTH, SHORT, GENERIC)  # of several texts of an item, the one that came nearest


def untestable_items(
    items: pl.DataFrame, queries: pl.DataFrame, methods: Sequence[str], answered: bool
) -> dict[str, dict[str, str]]:
    """Per method the items it cannot find in this corpus, by id, each with the reason.

    ``items`` and ``queries`` are the run's tables, the queries of one corpus; ``answered`` says
    whether that corpus gives answers at all.
    """
    texts = [
        item_texts(Example(one, question=question, options=tuple(options or ()), answer=answer))
        for one, question, options, answer in items.select(
            "benchmark_id", "question", "options", "answer"
        ).iter_rows()
    ]
    entries = [
        entry
        for entry in text_entries(texts, items["cluster"].to_list())
        if entry.field != "options"  # options without their question are no evidence
    ]
    common = set(common_questions(queries)["benchmark_id"])
    found: dict[str, dict[str, str]] = {}
    for method in methods:
        reasons: list[set[str]] = [set() for _ in texts]
        for entry in entries:
            for position in entry.items:
                with_answer = answered and bool(texts[position].answer)
                apart = with_answer and position in entry.apart
                reasons[position].add(_reason(method, entry, with_answer, apart))
        told = zip(items["benchmark_id"].to_list(), reasons, strict=True)
        settled = ((one, _settled(why, one in common)) for one, why in told)
        found[method] = {one: why for one, why in settled if why}
    return found


def _settled(reasons: set[str], common: bool) -> str:
    """One reason of those of an item's texts; empty where one of them can be found."""
    if not reasons:
        return NO_WORDS
    if "" in reasons:
        return COMMON if common else ""
    return next(reason for reason in _ORDER if reason in reasons)


def _reason(method: str, entry: Entry, with_answer: bool, apart: bool) -> str:
    """Why a text is never evidence for this method; empty where it can be."""
    if entry.generic and (method == "ngram" or not apart):
        return GENERIC
    # A short question counts where its answer agrees; inside a page nobody knows what the answer is.
    if entry.short and (method == "ngram" or not with_answer):
        return SHORT
    if method == "edit" and not SHORTEST <= len(mask(entry.text)) <= LONGEST:
        return LENGTH
    return ""
