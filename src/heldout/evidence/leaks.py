"""What leaked of each item: pictures, words, answers and people's judgements, joined once.

``leaks_of`` gives every match that says anything, ``leaks`` one row per item and corpus. Both classify a match
by the same ``Rung``, and nothing else in heldout classifies matches.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from heldout.evidence.rungs import PROVEN, UNPROVEN_WORDS, Rung
from heldout.overlap import (
    ANOTHER,
    BESIDE,
    BY_DIGEST,
    CONTAINED,
    COPIES,
    DISMISSED_ALONE,
    DOUBTFUL_REWORDING,
    EDITED,
    FULLER,
    NO_PICTURE,
    PARAPHRASE,
    PLACE,
    ROWS,
    SAME_CAPTION,
    SAME_ITEM,
    SAME_QUESTION,
    UNCOMPARED,
    UNDECIDED_WORDS,
    Bounds,
    CondensedMatches,
    Modality,
    Relation,
    condensed_matches,
    item_words,
    label_beside,
    match_batches,
    not_agreed,
    read_text_matches,
    recognised,
)
from heldout.store import Run, empty_table

#: label relations of an item whose copy has another answer or label
LABEL_CONFLICTS = ("different", "conflicting")
DIGEST, REGISTRATION, PEOPLE = "digest", "registration", "people"  # what shows a copy
_QUESTIONS = (SAME_ITEM, SAME_QUESTION, EDITED)
_SAME_WORDS = (*_QUESTIONS, SAME_CAPTION)  # relations that mean these, not merely the same subject
_SOURCE = "provenance"  # says only where to look: its words are compared anyway
_GRADED = ("hard", "soft")
_BESIDE = {ANOTHER: Rung.BESIDE_ANOTHER, UNCOMPARED: Rung.UNCOMPARED}
_REASONS = {
    Rung.FULL: "image, question and answer leaked",
    Rung.COPY: "image leaked",
    Rung.UNDECIDED: "undecided match",
    Rung.LOOK_ALIKE: "look-alike",
    Rung.TEXT: "question and answer leaked without an image",
}
# Names of words that prove nothing, by the relation of the pair.
_WORDS = {
    SAME_ITEM: "question and answer, short, or beside another or an unread picture",
    SAME_QUESTION: "question without its answer",
    SAME_CAPTION: "caption",
    CONTAINED: "words inside a longer text",
}


@dataclass(frozen=True)
class Leak:
    """One match of one item. ``row`` is the run's, with its evidence; it represents so many ``matches`` that differ
    in nothing but the corpus item and the similarity (0: another leak of the item counts them)."""

    rung: Rung
    row: Mapping[str, Any]
    matches: int = 1

    @property
    def gravity(self) -> tuple[bool, bool, int]:
        """For sorting: words first, then pictures, proven leaks last."""
        return self.rung in PROVEN, self.rung not in UNPROVEN_WORDS, self.rung.height

    @property
    def reason(self) -> str:
        if self.rung is Rung.UNDECIDED and (why := _not_agreed(self.row)):
            return why
        if self.rung in _REASONS:
            return _REASONS[self.rung]
        if self.row["relation"] == SAME_QUESTION and evidence_of(self.row).get("corpus_answers"):
            theirs = {"different": "another answer"}.get(str(self.row.get("label_relation")))
            return f"question with {theirs or 'its answer in other words or none'}"
        return _WORDS.get(str(self.row["relation"]), "words like its own")

    @property
    def graded(self) -> bool:
        """False of a look-alike that is less similar than the encoder's degrees ask."""
        return self.rung is not Rung.LOOK_ALIKE or self.row["degree"] in _GRADED

    @property
    def corpus_item(self) -> tuple[str, str]:
        return str(self.row["corpus"]), str(self.row["corpus_id"])


@dataclass
class ItemLeaks:
    leaks: list[Leak] = field(default_factory=list)

    @property
    def matches(self) -> int:
        """How many matches they are."""
        return sum(leak.matches for leak in self.leaks)

    @property
    def gravest(self) -> Leak:
        """The worst match; among equals the most similar, then the first by corpus and id."""
        worst = max(leak.gravity for leak in self.leaks)
        return min(
            (leak for leak in self.leaks if leak.gravity == worst),
            key=lambda leak: (-_similarity(leak.row), leak.corpus_item),
        )

    @property
    def grade(self) -> Rung:
        return self.gravest.rung

    @property
    def possible_rewordings(self) -> list[Leak]:
        """Words with the item's answer, beside a copy of its picture, that may be its question in other words."""
        copies = {leak.corpus_item for leak in self.leaks if leak.rung is Rung.COPY}
        words = [leak for leak in self.leaks if leak.rung is Rung.SIMILAR and _doubtful(leak.row)]
        beside = (leak for leak in words if leak.corpus_item in copies)
        return [leak for leak in beside if leak.row["label_relation"] == "same"]

    @property
    def label(self) -> str:
        """How the leaked label relates to the benchmark's: same, different, conflicting, unknown.

        Of look-alikes it is the nearest one's; beside a copy they say nothing.
        """
        if self.grade is Rung.LOOK_ALIKE:
            near = (leak.row for leak in self.leaks if leak.rung is Rung.LOOK_ALIKE)
            return str(max(near, key=_similarity)["label_relation"])
        pictured = (
            leak for leak in self.leaks if leak.rung in (Rung.UNDECIDED, Rung.COPY, Rung.FULL)
        )
        known = {str(leak.row["label_relation"]) for leak in pictured} & {"same", "different"}
        return "conflicting" if len(known) == 2 else known.pop() if known else "unknown"


def leaks_of(
    run: Run, bounds: Bounds | None = None, *, ungraded: bool = False
) -> dict[str, ItemLeaks]:
    """Every item with a match that may be a reason to leave it out, by its id. A shared source is not such a
    reason. Matches that differ in nothing but the corpus item and the similarity are a few leaks: ``Leak.matches``.

    ``ungraded``: with look-alikes whose similarity is below the encoder's degrees, as ``leaks`` has them.

    ``bounds``: degrees of the search's encoder, in place of those the run was made with. They also grade
    pairs that cannot be verified because the corpus holds embeddings alone, as the published study does.
    """
    items = _matched(condensed_matches(run, bounds).table, _texts(run), bounds)
    words: dict[str, tuple[str, str]] | None = None
    for identifier, item in items.items():
        item.leaks = [
            leak
            for leak in item.leaks
            if leak.rung is not Rung.SOURCE_OVERLAP and (ungraded or leak.graded)
        ]
        for place, leak in enumerate(item.leaks):
            if leak.rung is Rung.LOOK_ALIKE:
                words = item_words(run) if words is None else words
                beside = label_beside(leak.row, words.get(identifier, ("", "")))
                row = {**leak.row, "label_relation": beside}
                item.leaks[place] = Leak(leak.rung, row, leak.matches)
    return {identifier: item for identifier, item in items.items() if item.leaks}


def leaks(run: Run) -> pl.DataFrame:
    """One row per item and corpus that anything connects, as people judged it.

    * ``benchmark_id``, ``corpus``;
    * ``modality``: what of the item is there: full, image and question, image only, text only, source
      only, or none (only pictures that are no proven copies);
    * ``label_relation``: whether the label there is the same, different, conflicting or unknown;
    * ``image_hits``, ``text_hits``, ``source_hits``: corpus items with its picture, with words that count,
      with the name of its source;
    * ``rung``: the highest that a match reaches;
    * ``corpus_id``: the corpus item that reaches it;
    * ``shown_by``: the surest that shows a copied picture: digest, registration or people; else empty.
    """
    scanned = run.table_path("matches").exists()
    matches = condensed_matches(run) if scanned else CondensedMatches.of([])
    kept = _kept.get("leaks")
    if kept is None or kept[0] is not matches:
        kept = _kept["leaks"] = matches, join_leaks(matches, _texts(run))
    return kept[1]


def copies_with_answer(run: Run) -> pl.DataFrame:
    """The copies beside which the item's question and answer stand, in its words or in others: a match of
    pictures does not know those in others."""
    full = (pl.col("modality") == Modality.FULL) & (pl.col("label_relation") == "same")
    columns = ("benchmark_id", "corpus", "corpus_id", "modality", "label_relation")
    return leaks(run).filter(full & (pl.col("image_hits") > 0)).select(columns)


# Claims, verdict and page of one run all ask for it; condensed matches are the same object while no file changes.
_kept: dict[str, tuple[CondensedMatches, pl.DataFrame]] = {}


def join_leaks(condensed: CondensedMatches, texts: pl.DataFrame) -> pl.DataFrame:
    """``leaks`` from the tables matches and text_matches, as people judged them."""
    keys, matches = ["benchmark_id", "corpus"], condensed.table
    highest = _highest(matches, texts)
    words = texts.filter(pl.col("method") != _SOURCE)
    asked = words.filter(pl.col("relation").is_in(_QUESTIONS)).select(*keys, "corpus_id").unique()
    by_tool = pl.col("raters") == 0
    shown_by = (
        pl.when((by_tool & pl.col("method").is_in(BY_DIGEST)).any())
        .then(pl.lit(DIGEST))
        .when(by_tool.any())
        .then(pl.lit(REGISTRATION))
        .otherwise(pl.lit(PEOPLE))
    )
    # A common question is no evidence by itself, but beside the same picture it belongs to the item: there
    # words count whatever their degree.
    question = (pl.col("modality") == Modality.IMAGE_AND_QUESTION) | pl.col("asked")
    pictured = (
        recognised(matches)
        .join(asked.with_columns(asked=True), on=[*keys, "corpus_id"], how="left")
        .group_by(keys)
        .agg(
            question.any().alias("asked"),
            _label(pl.col("label_relation")).alias("label_relation"),
            shown_by.alias("shown_by"),
        )
        .join(condensed.copies, on=keys, how="left")
    )
    evident = words.filter(pl.col("degree") != "none")
    frame = evident.group_by(keys).agg(
        pl.col("corpus_id").n_unique().alias("text_hits"),
        _label(pl.col("answer_relation")).alias("text_label"),
    )
    sources = texts.filter(pl.col("method") == _SOURCE).group_by(keys)
    hits = sources.agg(pl.col("corpus_id").n_unique().alias("source_hits"))
    joined = highest.join(pictured, on=keys, how="left").join(frame, on=keys, how="left")
    joined = joined.join(hits, on=keys, how="full", coalesce=True)
    modality = (
        pl.when(pl.col("rung") == Rung.FULL)
        .then(pl.lit(Modality.FULL))
        .when(pl.col("asked"))
        .then(pl.lit(Modality.IMAGE_AND_QUESTION))
        .when(pl.col("image_hits").is_not_null())
        .then(pl.lit(Modality.IMAGE_ONLY))
        .when(pl.col("text_hits").is_not_null())
        .then(pl.lit(Modality.TEXT_ONLY))
        .when(pl.col("source_hits").is_not_null())
        .then(pl.lit(Modality.SOURCE_ONLY))
        .otherwise(pl.lit(Modality.NONE))
    )
    label = pl.coalesce("label_relation", "text_label", pl.lit("unknown"))
    # Where the words show that the answer leaked, fields that could not be compared do not contradict it.
    answered = label.replace({"unknown": "same", "different": "conflicting"})
    return joined.select(
        *keys,
        modality.alias("modality"),
        pl.when(pl.col("rung") == Rung.FULL)
        .then(answered)
        .otherwise(label)
        .alias("label_relation"),
        pl.col("image_hits", "text_hits", "source_hits").fill_null(0).cast(pl.Int64),
        "rung",
        "corpus_id",
        "shown_by",
    ).sort("corpus", "benchmark_id")


def _highest(matches: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """(benchmark_id, corpus, rung, corpus_id): the highest rung; of equals the first by id."""
    columns = ["benchmark_id", "corpus", "rung", "corpus_id"]
    pairs = texts.select("benchmark_id", "corpus", "corpus_id").unique()
    beside = matches.join(pairs, on=pairs.columns, how="semi", maintain_order="left")
    words = [
        (identifier, leak.corpus_item[0], leak.rung.value, leak.corpus_item[1])
        for identifier, leak in _word_leaks(_matched(beside, texts.clear()), texts)
    ]
    schema = dict.fromkeys(columns, pl.String)
    heights = {rung.value: rung.height for rung in Rung}
    return (
        pl.concat(
            [
                _with_rungs(matches).select(columns),
                pl.DataFrame(words, schema=schema, orient="row"),
            ]
        )
        .sort(pl.col("rung").replace_strict(heights, return_dtype=pl.Int64) * -1, "corpus_id")
        .unique(["benchmark_id", "corpus"], keep="first", maintain_order=True)
    )


def _texts(run: Run) -> pl.DataFrame:
    searched = run.table_path("text_matches").exists()
    return read_text_matches(run) if searched else pl.DataFrame(empty_table("text_matches"))


def _matched(
    matches: pl.DataFrame, texts: pl.DataFrame, bounds: Bounds | None = None
) -> dict[str, ItemLeaks]:
    """Every match with a rung, by item."""
    items: dict[str, ItemLeaks] = defaultdict(ItemLeaks)
    for row in _with_rungs(matches).drop(PLACE, "waits").iter_rows(named=True):
        rung: Rung | None = Rung(row.pop("rung"))
        count = row.pop(ROWS)
        if rung is Rung.UNDECIDED and bounds is not None and _without_picture(row):
            rung = Rung.LOOK_ALIKE if row["degree"] in _GRADED else None
        if rung is not None:
            items[row["benchmark_id"]].leaks.append(Leak(rung, row, count))
    for identifier, leak in _word_leaks(items, texts):
        items[identifier].leaks.append(leak)
    return items


def _word_leaks(items: dict[str, ItemLeaks], texts: pl.DataFrame) -> Iterator[tuple[str, Leak]]:
    """The text matches with a rung, by themselves or together with a picture of ``items``."""
    for row in texts.iter_rows(named=True):
        identifier = row["benchmark_id"]
        together = _with_image(row, items[identifier])
        if together is not None:
            yield identifier, together
        elif (rung := _words_rung(row)) is not None:
            seen = {"modality": Modality.TEXT_ONLY, "label_relation": row["answer_relation"]}
            yield identifier, Leak(rung, {**row, **seen})


#: columns of ``leak_batches``
_LISTED = [
    *(
        "benchmark_id",
        "corpus",
        "corpus_id",
        "method",
        "similarity",
        "relation",
        "modality",
        "evidence",
    ),
    *("rung", "reason"),
]


def leak_batches(run: Run) -> Iterator[pl.DataFrame]:
    """Every match of ``leaks_of``, with its ``rung`` and ``reason``, in pieces: pictures in the order of
    their table, then words."""
    for frame in match_batches(run):
        ranked = _with_rungs(frame)
        graded = (pl.col("rung") != Rung.LOOK_ALIKE) | pl.col("degree").is_in(_GRADED)
        plain = pl.col("rung").replace_strict(_REASONS, default=None, return_dtype=pl.String)
        waits = (pl.col("rung") == Rung.UNDECIDED) & (pl.col("waits") != "")
        reason = pl.when(waits).then(pl.col("waits")).otherwise(plain)
        yield ranked.filter(graded).with_columns(reason.alias("reason")).select(_LISTED)
    texts = _texts(run)
    if texts.is_empty():
        return
    items = _matched(condensed_matches(run).table, texts.clear())
    rows = [
        {**leak.row, "rung": leak.rung.value, "reason": leak.reason}
        for _, leak in _word_leaks(items, texts)
        if leak.rung is not Rung.SOURCE_OVERLAP
    ]
    schema = dict.fromkeys(_LISTED, pl.String) | {"similarity": pl.Float64}
    yield pl.DataFrame(
        [{name: row[name] for name in _LISTED} for row in rows], schema=schema, orient="row"
    )


def _waiting(frame: pl.DataFrame) -> pl.Series:
    """What another rater has to settle of each row, see ``not_agreed``."""
    judged = frame["evidence"].str.contains('"people":', literal=True)
    if not judged.any():
        return pl.Series("waits", [""], pl.String).new_from_index(0, len(frame))
    rows = zip(judged, frame.select("relation", "evidence").iter_rows(named=True), strict=True)
    waits = [_not_agreed(row) if people else "" for people, row in rows]
    return pl.Series("waits", waits, pl.String)


def _with_image(row: Mapping[str, Any], item: ItemLeaks) -> Leak | None:
    """The full leak of an image whose corpus item asks the question in other words; beside the picture, too, a
    question that may as well be another one is for people to read."""
    reworded = row["relation"] == PARAPHRASE and row["degree"] != "none" and not _doubtful(row)
    fuller = row["relation"] in _SAME_WORDS and evidence_of(row).get(FULLER)
    same = row["answer_relation"] == "same" and (reworded or row["relation"] in _SAME_WORDS)
    if not (same or fuller):
        return None
    place = str(row["corpus"]), str(row["corpus_id"])
    for leak in item.leaks:
        if leak.rung is Rung.COPY and leak.corpus_item == place:
            method = f"{leak.row['method']} + text {row['method']}"
            seen = {"modality": Modality.FULL, "label_relation": "same", "method": method}
            return Leak(Rung.FULL, {**leak.row, **seen})
    return None


def _doubtful(row: Mapping[str, Any]) -> bool:
    return bool((evidence_of(row).get("reading") or {}).get(DOUBTFUL_REWORDING))


def _with_rungs(matches: pl.DataFrame) -> pl.DataFrame:
    """The matches of pictures with a rung, with ``rung``, and ``waits``: what a rater has to settle."""
    relation, copies = pl.col("relation"), pl.col("relation").is_in(COPIES)
    doubted = (relation == Relation.UNDECIDED) | (pl.col("waits") == DISMISSED_ALONE)
    rung = (
        pl.when(copies & (pl.col("modality") == Modality.FULL))
        .then(pl.lit(Rung.FULL.value))
        .when(copies)
        .then(pl.lit(Rung.COPY.value))
        .when(doubted)
        .then(pl.lit(Rung.UNDECIDED.value))
        .when((relation == Relation.LOOK_ALIKE) | pl.col("degree").is_in(_GRADED))
        .then(pl.lit(Rung.LOOK_ALIKE.value))
    )
    ranked = matches.with_columns(_waiting(matches)).with_columns(rung.alias("rung"))
    return ranked.filter(pl.col("rung").is_not_null())


def _words_rung(row: Mapping[str, Any]) -> Rung | None:
    """The rung of a text match by itself, as in the text claim; None if it is no evidence.

    A degree grades a pair of texts, and a whole question is hard without its answer, too. Only with
    its answer it survives in a claim: a stock question is on many pages.
    """
    if row["method"] == _SOURCE:
        return Rung.SOURCE_OVERLAP
    if row["degree"] == "none":
        return None
    whole = row["relation"] == SAME_ITEM
    if row["degree"] == "soft":
        beside = evidence_of(row).get(BESIDE) if whole else None
        return _BESIDE.get(str(beside), Rung.SIMILAR)
    return Rung.TEXT if whole else Rung.WORDING


def _without_picture(row: Mapping[str, Any]) -> bool:
    evidence = evidence_of(row)
    return evidence.get("unverified") == NO_PICTURE and "people" not in evidence


def _not_agreed(row: Mapping[str, Any]) -> str:
    return not_agreed(str(row["relation"]), evidence_of(row))


def evidence_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A match's evidence; what is not JSON is kept as text."""
    try:
        value = json.loads(row.get("evidence") or "{}")
    except ValueError:
        return {"text": row["evidence"]}
    return value if isinstance(value, dict) else {"text": value}


def undecided_because(row: Mapping[str, Any]) -> tuple[str, str]:
    """(picture, what keeps an undecided match from being decided); "" where its run does not say."""
    pixels = str(evidence_of(row).get("benchmark_pixels", ""))
    return pixels, _because(evidence_of(row), str(row["transform"]))


def undecided_words(evidence: Mapping[str, Any], transform: str = "") -> str:
    """Why a match with this evidence is undecided, for people; "" where its run does not say."""
    reason = _because(evidence, transform)
    return UNDECIDED_WORDS.get(reason, reason)


def _because(evidence: Mapping[str, Any], transform: str) -> str:
    if "people" in evidence:
        return not_agreed(Relation.UNDECIDED, evidence) or "people are unsure"
    registration = evidence.get("registration") or {}
    return str(evidence.get("unverified") or registration.get("reason") or transform or "")


def _similarity(row: Mapping[str, Any]) -> float:
    return float(row.get("similarity") or 0.0)


def _label(relation: pl.Expr) -> pl.Expr:
    """same, different, or conflicting where copies of one item say both."""
    same, different = (relation == "same").any(), (relation == "different").any()
    return (
        pl.when(same & different)
        .then(pl.lit("conflicting"))
        .when(same)
        .then(pl.lit("same"))
        .when(different)
        .then(pl.lit("different"))
        .otherwise(pl.lit("unknown"))
    )
