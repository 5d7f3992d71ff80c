"""What a pair of texts is: which fields agree, what the relation is called, how much it counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl
from rapidfuzz.distance import Levenshtein

from heldout.benchmark import BYTES_ONLY, Example, normal
from heldout.overlap.relations import POSSIBLE_COPIES
from heldout.overlap.texts._answers import answered_within, compare_answers, of_a_kind, worked
from heldout.overlap.texts._fields import Document, ItemTexts, TextSource, item_texts
from heldout.overlap.texts._labelled import may_be_a_remark
from heldout.overlap.texts._ledger import LISTED, MatchLedger, Pair
from heldout.overlap.texts.edits import (
    EDITED,
    LONGEST,
    OTHER,
    RENUMBERED,
    SAME,
    SHORTEST,
    compare_wording,
)
from heldout.overlap.texts.index import Entry, TextIndex, text_entries
from heldout.overlap.texts.normalise import PROFILES, common_questions, mask, numbers, profiled

SAME_ITEM: Final = "same item"
SAME_QUESTION: Final = "same question"
SAME_CAPTION: Final = "same caption"
SAME_OPTIONS: Final = "same options"
CONTAINED: Final = "contained"
PARAPHRASE: Final = "paraphrase candidate"
DOUBTFUL_REWORDING: Final = (
    "doubtful"  # in the reading of a candidate that may as well be another question
)
SAME_SOURCE = "same source"
FULLER = (
    "fuller_answer"  # in the evidence: one of the two answers says more, and neither another thing
)
WHOLE = 0.8  # containment from which on a text counts as being there
TEMPLATE = 0.8  # edit similarity from which on another word makes another question
_LETTER = re.compile(r"\(?[a-j]\)?")  # stands for an option nobody can see
_POINTER = re.compile(rf"{_LETTER.pattern}|\d{{1,2}}")  # where there are options


class WordingRelation(NamedTuple):
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
    renumbered: bool = False,
    apart: bool = False,
) -> WordingRelation:
    """``template``: the n-gram pass saw that words between the shared runs are others; ``renumbered``: that the
    shared words stand around other numbers.

    ``apart``: of those that ask in these words, numbers and answer tell the item apart.
    """
    optioned = bool(item.options or document.options)
    answer = _answers(item, document.answers, optioned)
    free = not document.answers or document.field == "text"
    repeated = (answer for answer in document.answers if len(answer) > len(item.answer))
    within = any(
        answered_within(entry.text, item, text) for text in ((document.text,) if free else repeated)
    )
    if within:
        answer = "same"
    if answer == "different" and free and may_be_a_remark(entry.text, document.text):
        answer = "unknown"
    if answer == "different" and document.guessed and not of_a_kind(item.answer, document.answers):
        answer = "unknown"
    if method == "embedding" and answer == "different" and worked((item.answer, *document.answers)):
        answer = "unknown"
    options = bool(item.options) and item.options == document.options
    whole = options or not item.options or not document.options  # unless other options are given
    relation = _relation(method, entry, document, answer, whole)
    relation = OTHER if template else relation
    relation = RENUMBERED if renumbered and relation == CONTAINED else relation
    if within and relation == CONTAINED:
        relation = SAME_ITEM
    parts = [entry.field] if entry.field != "question" or not options else ["question+options"]
    if answer == "same":
        parts.append("answer")
    worth = degree_of(
        relation, answer, similarity, generic=entry.generic, short=entry.short, apart=apart
    )
    other_sum = renumbered or _other_sum(entry.text, document.text)
    if relation == RENUMBERED and answer != "same" and other_sum:
        worth = "none"
    return WordingRelation("+".join(parts), relation, answer, worth)


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
    if relation == PARAPHRASE:
        return "none"  # until it has been read in the light of picture and answer
    if short:
        return "none"
    if relation in (RENUMBERED, EDITED):
        return "none" if answer == "different" else "soft"
    if relation == CONTAINED and similarity < WHOLE:
        return "soft"
    return "soft" if answer == "different" else "hard"


def _renumbered(ours: str, theirs: str) -> bool:
    """Of a document that is the text and little more; in a page the n-gram pass compares what stands there."""
    return len(theirs) <= 2 * len(ours) and compare_wording(ours, theirs) == RENUMBERED


def _other_sum(ours: str, theirs: str) -> bool:
    """The same words around other numbers, two or more: another problem from one template, where no answer says
    that it is the same."""
    known, others = numbers(ours), numbers(theirs)
    return min(len(known), len(others)) > 1 and known != others


def _answers(item: ItemTexts, theirs: tuple[str, ...], optioned: bool) -> str:
    """``optioned``: one side gives options, so that a number may point to one of them."""
    ours = item.answer
    if not ours or not theirs:
        return "unknown"
    others = {normal(option) for option in item.options.split(" | ")} - {ours}
    relations = {
        "different" if answer in others else compare_answers(ours, answer) for answer in theirs
    }
    if "same" in relations:
        return "same"
    pointer = _POINTER if optioned else _LETTER
    if not pointer.fullmatch(ours) and all(pointer.fullmatch(answer) for answer in theirs):
        return "unknown"
    return "unknown" if "unknown" in relations else "different"


# The rows of the tables text_matches and text_queries, made of what a shard's ledger kept.


_DEGREES = ("none", "soft", "hard")
READ = 1000  # characters of a paraphrase candidate that are kept until it has been read
SHOWN = 500  # characters of a text that travel as evidence


@dataclass(slots=True)
class SourceHits:
    """Corpus items that carry one id: how many, and the first of them."""

    pairs: int = 0
    listed: list[str] = field(default_factory=list)

    def add(self, corpus_id: str) -> None:
        self.pairs += 1
        if len(self.listed) < LISTED:
            self.listed.append(corpus_id)


def match_rows(
    index: TextIndex, ledger: MatchLedger, sources: Mapping[TextSource, SourceHits], corpus: str
) -> Iterator[dict[str, Any]]:
    best: dict[tuple[str, int, str], dict[str, Any]] = {}
    for method, entry, item, pair in ledger.listed():
        row = match_row(index, corpus, method, entry, item, pair)
        # A question, and the same question with its options, are one pair: the stronger match.
        key = (method, item, pair.document.corpus_id)
        if key not in best or _strength(row) > _strength(best[key]):
            best[key] = row
    yield from best.values()
    for source, hits in sorted(sources.items()):
        for item in index.provenance.by_source[source]:
            for corpus_id in hits.listed:
                yield {
                    "benchmark_id": index.ids[item],
                    "corpus": corpus,
                    "corpus_id": corpus_id,
                    "method": "provenance",
                    "field": source.kind,
                    "corpus_field": source.kind,
                    "similarity": 1.0,
                    "degree": "soft",
                    "relation": SAME_SOURCE,
                    "answer_relation": "unknown",
                    "evidence": json.dumps({"source": source.value}, ensure_ascii=False),
                }


def _strength(row: Mapping[str, Any]) -> tuple[int, float, int]:
    return _DEGREES.index(row["degree"]), row["similarity"], row["field"].count("+")


def query_rows(
    index: TextIndex, ledger: MatchLedger, sources: Mapping[TextSource, SourceHits], corpus: str
) -> Iterator[dict[str, Any]]:
    for row in ledger.queries():
        yield {**row, "corpus": corpus}
    pairs: dict[int, tuple[int, str]] = {}
    for source, hits in sorted(sources.items()):
        for item in index.provenance.by_source[source]:
            count, first = pairs.get(item, (0, ""))
            pairs[item] = (count + hits.pairs, first or hits.listed[0])
    for item, (count, corpus_id) in sorted(pairs.items()):
        yield {
            "benchmark_id": index.ids[item],
            "corpus": corpus,
            "method": "provenance",
            "pairs": count,
            "same_answer": 0,
            "other_answer": 0,
            "max_similarity": 1.0,
            "corpus_id": corpus_id,
        }


def match_row(
    index: TextIndex, corpus: str, method: str, number: int, item: int, pair: Pair
) -> dict[str, Any]:
    entry, document, texts = index.entries[number], pair.document, index.items[item]
    text_relation = relate(
        method,
        entry,
        texts,
        document,
        pair.similarity,
        template=bool(pair.evidence.get("template")),
        renumbered=bool(pair.evidence.get("renumbered")),
        apart=item in entry.apart,
    )
    evidence: dict[str, Any] = {
        **pair.evidence,
        "benchmark_text": entry.text[:SHOWN],
        "corpus_text": document.text[:SHOWN],
        "corpus_answers": [answer[:200] for answer in document.answers[:5]],
        "same_file_name": document.image in texts.names,
        "pictured": document.pictured,
        "short": entry.short,
        "generic": entry.generic,
        "apart": item in entry.apart,
        "bits": entry.bits,
    }
    if text_relation.answer == "unknown" and any(
        compare_answers(texts.answer, answer) == "unknown" for answer in document.answers
    ):
        evidence[FULLER] = True
    if method == "embedding":  # read again once the whole corpus is known
        evidence |= {
            "benchmark_text": entry.text[:READ],
            "corpus_text": document.text[:READ],
            "options": bool(texts.options) and texts.options == document.options,
        }
    if method == "exact":
        evidence["profile"] = next(
            p for p in PROFILES if profiled(entry.text, p) == profiled(document.text, p)
        )
    if texts.options and document.options and method != "embedding":
        evidence["options"] = "same" if texts.options == document.options else "different"
    return {
        "benchmark_id": index.ids[item],
        "corpus": corpus,
        "corpus_id": document.corpus_id,
        "method": method,
        "field": text_relation.field,
        "corpus_field": document.field,
        "similarity": pair.similarity,
        "degree": text_relation.degree,
        "relation": text_relation.relation,
        "answer_relation": text_relation.answer,
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }


# Which items a method could have found: those whose words would be evidence if a corpus held them.
#
# "Nothing was found" says something about these items only. The rules are those of ``relate`` and of
# ``settle_degrees``, asked before there is a match.


NO_WORDS = "have no words"
GENERIC = "share their question, apart from numbers, with others of the benchmark"
COMMON = "ask a question to which the corpus mostly gives other answers"
SHORT = "have too few or too common words"
LENGTH = f"have fewer than {SHORTEST} or more than {LONGEST:,} characters"
_ORDER = (LENGTH, SHORT, GENERIC)  # of several texts of an item, the one that came nearest


def untestable_items(
    items: pl.DataFrame, queries: pl.DataFrame, methods: Sequence[str], answered: bool
) -> dict[str, dict[str, str]]:
    """Per method the items it cannot find in this corpus, by id, each with the reason.

    ``items`` and ``queries`` are the run's tables, the queries of one corpus; ``answered`` says
    whether that corpus gives answers at all.
    """
    texts = [
        item_texts(
            Example(identifier, question=question, options=tuple(options or ()), answer=answer)
        )
        for identifier, question, options, answer in items.select(
            "benchmark_id", "question", "options", "answer"
        ).iter_rows()
    ]
    entries = [
        entry
        for entry in text_entries(texts, items["cluster"].to_list())
        if entry.field != "options"  # options without their question are no evidence
    ]
    common = set(common_questions(queries)["benchmark_id"])
    untestable: dict[str, dict[str, str]] = {}
    for method in methods:
        reasons: list[set[str]] = [set() for _ in texts]
        for entry in entries:
            for position in entry.items:
                with_answer = answered and bool(texts[position].answer)
                apart = with_answer and position in entry.apart
                reasons[position].add(_reason(method, entry, with_answer, apart))
        pairs = zip(items["benchmark_id"].to_list(), reasons, strict=True)
        settled = ((identifier, _settled(why, identifier in common)) for identifier, why in pairs)
        untestable[method] = {identifier: why for identifier, why in settled if why}
    return untestable


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


# The same words beside another picture: what the image scan says of a text match.
#
# Questions of one kind of benchmark are made from templates, and the same words with the same answer
# stand beside many pictures. Where the corpus item shows a picture of its own, and the image scan did not
# find it to be the item's, its words are worth a degree less than words that stand alone. Where one of the
# two pictures could not be compared nobody knows which it is, so that equal words prove nothing, either.


BESIDE = "beside"  # in the evidence of a pair whose corpus item has a picture, not known to be the item's
ANOTHER = "another picture"
UNCOMPARED = "pictures that could not be compared"
_LOWER = {"hard": "soft", "soft": "none"}
_PAIR = ["benchmark_id", "corpus", "corpus_id"]


def settle_pictures(
    text_matches: pl.DataFrame,
    matches: pl.DataFrame,
    items: pl.DataFrame,
    unread: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """``text_matches`` with the degree of words beside another picture lowered by one, and ``BESIDE`` said.

    ``unread``: (corpus, corpus_id) of items whose picture could not be read; without it, what the
    evidence says of that already.
    """
    own = _marked(matches.filter(pl.col("relation").is_in(POSSIBLE_COPIES)).select(_PAIR), "own")
    digests = pl.col("image_digests")
    shown = items.select(
        "benchmark_id",
        (digests.list.len() > 0).alias("named"),
        digests.list.eval((pl.element() != "") & ~pl.element().str.starts_with(BYTES_ONLY))
        .list.all()
        .alias("whole"),
    )
    known = text_matches.select("corpus", "corpus_id").filter(_said(UNCOMPARED, text_matches))
    lost = _marked(known if unread is None else unread, "lost")
    joined = (
        text_matches.join(own, on=_PAIR, how="left", maintain_order="left")
        .join(lost, on=_PAIR[1:], how="left", maintain_order="left")
        .join(shown, on="benchmark_id", how="left", maintain_order="left")
        .with_columns(pl.col("own", "lost", "named", "whole").fill_null(False))
    )
    pictured = pl.col("evidence").str.json_path_match("$.pictured") == "true"
    words = pl.col("method") != "provenance"
    beside = pictured & pl.col("named") & ~pl.col("own") & words
    uncompared = beside & (pl.col("lost") | ~pl.col("whole"))
    degree = (
        pl.when(uncompared)
        .then(pl.col("degree").replace({"hard": "soft"}))
        .when(beside)
        .then(pl.col("degree").replace(_LOWER))
        .otherwise(pl.col("degree"))
    )
    series = joined.select(
        pl.when(uncompared)
        .then(pl.lit(UNCOMPARED))
        .when(beside)
        .then(pl.lit(ANOTHER))
        .alias("told")
    )["told"]
    evidence = [
        json.dumps({**json.loads(text), BESIDE: word}, ensure_ascii=False) if word else text
        for text, word in zip(joined["evidence"], series, strict=True)
    ]
    return joined.with_columns(
        degree.alias("degree"), pl.Series("evidence", evidence, pl.String)
    ).drop("own", "lost", "named", "whole")


def beside(word: str) -> pl.Expr:
    """Rows of text_matches whose words stand beside such pictures: ANOTHER or UNCOMPARED."""
    return (pl.col("evidence").str.json_path_match(f"$.{BESIDE}") == word).fill_null(False)


def _said(word: str, rows: pl.DataFrame) -> pl.Series:
    return rows.select(beside(word).alias("said"))["said"]


def _marked(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.unique().with_columns(pl.lit(True).alias(name))
