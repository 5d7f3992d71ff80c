"""The table matches of any length: read in pieces as people judged it, and condensed to what conclusions need.

A claim counts rows and shows a few of them. Rows that agree in all that anything is concluded from are a group,
of which the nearest and the one with the smallest id stay, with the number of rows they represent.
A condensed table is as long as the benchmark makes it, however often its pictures are in a corpus.
"""

from __future__ import annotations

import functools
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from heldout.overlap.judgements import (
    FolderLabels,
    judged_matches,
    judged_texts,
    regraded,
    searched_with,
)
from heldout.overlap.relations import COPIES, Relation
from heldout.overlap.settings import Bounds
from heldout.store import MATCH, TEXT, Partitions, Run, current, empty_table, log_path

#: columns that a condensed table has beside those of matches
ROWS, PLACE = "rows", "place"
_PAIR = ["benchmark_id", "corpus", "corpus_id"]
_PLAIN = [
    *("benchmark_id", "image_index", "corpus", "method", "degree"),
    *("relation", "modality", "label_relation"),
]
# Of the evidence, what findings and claims depend on.
_PICTURE, _REASON, _SCRIPT, _PEOPLE, _NAMED = "picture", "reason", "script", "people", "named"
_KEYS = [*_PLAIN, _PICTURE, _REASON, _SCRIPT, _PEOPLE, _NAMED]
_MOST = 1 << 18  # rows that wait to be condensed


def match_batches(run: Run, bounds: Bounds | None = None) -> Iterator[pl.DataFrame]:
    """The table matches of ``run`` as its people judged it, so far as they did, in pieces and in its order.

    ``bounds``: degrees of the search's own encoder, in place of those it was run with.
    """
    items = run.frame("items") if run.table_path("items").exists() else None
    labels = FolderLabels.of(items)
    if labels:
        for frame in _judged(run, bounds, items):
            labels.look(frame)
    for frame in _judged(run, bounds, items):
        yield labels.give(frame)


def read_matches(run: Run, bounds: Bounds | None = None) -> pl.DataFrame:
    """All of ``match_batches`` as one table."""
    frames = list(match_batches(run, bounds))
    return pl.concat(frames) if frames else pl.DataFrame(empty_table("matches"))


def read_text_matches(run: Run) -> pl.DataFrame:
    """The table text_matches of ``run`` as its people judged it, so far as they did."""
    matches = run.frame("text_matches")
    judgements = current(run.path, TEXT).values()
    if not judgements or matches.is_empty():
        return matches
    images, items = condensed_matches(run).table, run.frame("items")
    return judged_texts(matches, judgements, items, images, run.frame("text_queries"))


def matches_of(run: Run, pairs: pl.DataFrame) -> pl.DataFrame:
    """The run's matches, as the search wrote them, of the pairs of items in ``pairs``."""
    once = pairs.select(_PAIR).unique()
    frames = [pl.DataFrame(empty_table("matches"))]
    for table in run.batches("matches"):
        rows = pl.DataFrame(table).join(once, on=_PAIR, how="semi", maintain_order="left")
        frames.append(pl.DataFrame(rows.to_arrow()))  # without the texts of other rows
    return pl.concat(frames)


def _judged(run: Run, bounds: Bounds | None, items: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    encoders = searched_with(run) if bounds is not None else []
    judgements = list(current(run.path, MATCH).values())
    for table in run.batches("matches"):
        frame = pl.DataFrame(table)
        if bounds is not None:
            frame = regraded(frame, bounds, encoders)
        yield judged_matches(frame, judgements, items) if judgements else frame


@dataclass(frozen=True)
class MatchBatches:
    """``match_batches`` of a run, as often as it is asked for."""

    run: Run
    bounds: Bounds | None = None

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return match_batches(self.run, self.bounds)


@dataclass(frozen=True)
class CondensedMatches:
    """Few rows for a whole table.

    Args:
        table: Rows of matches, with ``rows``, how many they represent (0: another row of the group counts them), and
            ``place``, which row of the table they are.
        copies: Per item and corpus the corpus items that hold a copy, as ``image_hits``.
        transforms: Per corpus and transform the rows that are copies, as ``rows``.
    """

    table: pl.DataFrame
    copies: pl.DataFrame
    transforms: pl.DataFrame

    @classmethod
    def of(
        cls, frames: Sequence[pl.DataFrame] | MatchBatches, texts: pl.DataFrame | None = None
    ) -> CondensedMatches:
        """``frames``: pieces of the table matches, which are read twice. ``texts``: pairs of items that the table
        text_matches holds; matches of these are kept apart, since pictures and words are joined there."""
        named = None
        if texts is not None:
            named = texts.select(_PAIR).unique().with_columns(pl.col("corpus_id").alias(_NAMED))
        groups, transforms = _Reduced(_KEYS), _Reduced(["corpus", "transform"])
        with CopiesCount() as copies:
            place = 0
            for frame in frames:
                keyed = _with_keys(frame, named, place)
                groups.add(keyed)
                hits = keyed.filter(pl.col("relation").is_in(COPIES))
                transforms.add(hits)
                copies.add(hits)
                place += len(frame)
            owned = copies.counts()
        return cls(
            _kept_rows(frames, groups.table()),
            owned,
            transforms.table().select("corpus", "transform", ROWS),
        )


def condensed_matches(run: Run, bounds: Bounds | None = None) -> CondensedMatches:
    """The table matches of ``run`` condensed; the same object as long as none of its files changes."""
    files = [run.table_path(name) for name in ("matches", "items", "text_matches")]
    files.append(log_path(run.path))
    return _condensed(run.path.resolve(), tuple(map(_state, files)), bounds)


def _state(path: Path) -> tuple[int, int, int]:
    if not path.exists():
        return 0, 0, 0
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=2)  # one verb asks for it several times
def _condensed(
    path: Path, _: tuple[tuple[int, int, int], ...], bounds: Bounds | None
) -> CondensedMatches:
    run = Run(path)
    texts = run.frame("text_matches") if run.table_path("text_matches").exists() else None
    return CondensedMatches.of(MatchBatches(run, bounds), texts)


def evidence_field(name: str) -> pl.Expr:
    """A text of the evidence that needs no escapes: a digest, or one of our own words. Six times faster than to read
    the JSON; a name inside a text has a backslash before its quotation mark, so it is not taken for a field."""
    return pl.col("evidence").str.extract(f'"{name}":\\s*"((?:[^"\\\\]|\\\\.)*)"')


def pair_hash(*columns: str) -> pl.Expr:
    """64 bits that name the values of some columns: two of 10^7 pairs share them once in 400,000 tables."""
    return pl.concat_str(columns, separator="\n", ignore_nulls=True).hash(1)


def with_subjects(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with what a judgement of each match is about, as ``match_subject`` says it: the benchmark's ``picture``
    and ``theirs``, and 64 bits of both as ``pair``."""
    unnamed = pl.concat_str("corpus", "corpus_id", separator="\n")  # an embedding has no file
    theirs = evidence_field("corpus_image").replace("", None)
    return frame.with_columns(
        evidence_field("benchmark_pixels").fill_null("").alias("picture"),
        pl.coalesce(theirs, unnamed).alias("theirs"),
    ).with_columns(pair_hash("picture", "theirs").alias("pair"))


class CopiesCount:
    """Counts, per item and corpus, the corpus items that hold a copy."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], int] = {}
        self._pairs = Partitions({"pair": np.uint64, "owner": np.uint32}, by="pair")

    def __enter__(self) -> CopiesCount:
        return self

    def __exit__(self, *error: Any) -> None:
        self._pairs.__exit__(*error)

    def add(self, hits: pl.DataFrame) -> None:
        once = hits.select(*_PAIR, pair_hash(*_PAIR).alias("pair")).unique("pair")
        keys = once.select("benchmark_id", "corpus").iter_rows()
        owners = self._owners
        codes = [owners.setdefault((item, corpus), len(owners)) for item, corpus in keys]
        self._pairs.add(pair=once["pair"].to_numpy(), owner=np.array(codes, np.uint32))

    def counts(self) -> pl.DataFrame:
        counts = np.zeros(len(self._owners), np.int64)
        for part in self._pairs:
            once = part[np.unique(part["pair"], return_index=True)[1]]
            counts += np.bincount(once["owner"], minlength=len(counts))
        return pl.DataFrame(
            {
                "benchmark_id": [item for item, _ in self._owners],
                "corpus": [corpus for _, corpus in self._owners],
                "image_hits": counts,
            },
            schema={"benchmark_id": pl.String, "corpus": pl.String, "image_hits": pl.Int64},
        )


def _with_keys(frame: pl.DataFrame, named: pl.DataFrame | None, place: int) -> pl.DataFrame:
    undecided = pl.col("relation") == Relation.UNDECIDED
    reasons = [evidence_field(name).replace("", None) for name in ("unverified", "reason")]
    people = pl.col("evidence").str.contains('"people":', literal=True)
    keyed = frame.select(
        *_PLAIN,
        pl.col("corpus_id").fill_null(""),
        "transform",
        pl.lit(1, pl.Int64).alias(ROWS),
        pl.col("similarity").fill_null(float("-inf")).alias("near"),
        pl.int_range(place, place + len(frame), dtype=pl.Int64).alias(PLACE),
        evidence_field("benchmark_pixels").alias(_PICTURE),
        pl.when(undecided)
        .then(pl.coalesce(*reasons, "transform"))  # as ``undecided_because`` says it
        .alias(_REASON),
        pl.Series(_SCRIPT, _scripts(frame), pl.String),
        pl.Series(
            _PEOPLE,
            _judged_pairs(frame.filter(people), frame.select(people).to_series()),
            pl.String,
        ),
    )
    if named is None:
        return keyed.with_columns(pl.lit(None, pl.String).alias(_NAMED))
    return keyed.join(named, on=_PAIR, how="left", maintain_order="left")


def _judged_pairs(judged: pl.DataFrame, which: pl.Series) -> list[str | None]:
    """What people said of a pair of pictures, and of which; None where they said nothing."""
    messages = []
    for corpus_id, text in judged.select("corpus_id", "evidence").iter_rows():
        evidence = json.loads(text)
        theirs = evidence.get("corpus_image") or corpus_id
        people = evidence.get("people")
        messages.append(json.dumps([theirs, people]) if people else None)
    following = iter(messages)
    return [next(following) if judged_row else None for judged_row in which]


def _scripts(frame: pl.DataFrame) -> pl.Series:
    """The script of question and answer beside every copy, see ``script``; null where there are none."""
    words = pl.concat_str(
        evidence_field("corpus_question"),
        evidence_field("corpus_answer"),
        separator=" ",
        ignore_nulls=True,
    )
    known = pl.col("relation").is_in(COPIES) & evidence_field("corpus_question").is_not_null()
    texts = frame.select(pl.when(known).then(words).alias("words")).to_series()
    plain = texts.str.contains(r"^[\x00-\x5B\x5D-\x7F]*$")  # ASCII without a backslash
    latin = pl.DataFrame({"words": texts, "plain": plain}).select(
        pl.when(pl.col("plain"))
        .then(
            pl.when(pl.col("words").str.contains("[A-Za-z]"))
            .then(pl.lit("LATIN"))
            .otherwise(pl.lit(""))
        )
        .alias(_SCRIPT)
    )
    others = texts.filter(~plain.fill_null(True)).unique()
    if others.is_empty():
        return latin[_SCRIPT]
    scripts = {text: script(json.loads(f'"{text}"', strict=False)) for text in others}
    return latin[_SCRIPT].fill_null(
        texts.replace_strict(scripts, default=None, return_dtype=pl.String)
    )


def script(text: str) -> str:
    """The script of most letters, as Unicode names it: LATIN, CJK, CYRILLIC; "" without letters."""
    letters = Counter(
        unicodedata.name(sign, "").partition(" ")[0] for sign in text if sign.isalpha()
    )
    return letters.most_common(1)[0][0] if letters else ""


class _Reduced:
    """Rows by group: their number, the place of the nearest (of equals the first, and the one with the smallest id),
    and of the one with the smallest id."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._waiting: list[pl.DataFrame] = []
        self._length = 0

    def add(self, keyed: pl.DataFrame) -> None:
        place, name = pl.col(PLACE), pl.col("corpus_id")
        rows = keyed.select(
            *self._keys,
            ROWS,
            "near",
            place.alias("first"),
            name.alias("listed_id"),
            place.alias("listed"),
            name.alias("smallest_id"),
            place.alias("smallest"),
        )
        self._waiting.append(self._reduce(rows))
        self._length += len(self._waiting[-1])
        if self._length > _MOST and len(self._waiting) > 1:
            self._waiting = [self._reduce(pl.concat(self._waiting))]
            self._length = (
                len(self._waiting[0]) // 2
            )  # a long result is not reduced for every piece

    def _reduce(self, rows: pl.DataFrame) -> pl.DataFrame:
        near, smallest = pl.col("near"), pl.col("smallest_id")
        reduced = (
            rows.sort("near", "listed_id", "listed", descending=[True, False, False])
            .group_by(self._keys)
            .agg(
                pl.col(ROWS).sum(),
                near.first(),
                pl.col("first").filter(near == near.first()).min(),
                pl.col("listed_id", "listed").first(),
                smallest.min(),
                pl.col("smallest").filter(smallest == smallest.min()).min(),
            )
        )
        return pl.DataFrame(reduced.to_arrow())  # without the texts of the rows that go

    def table(self) -> pl.DataFrame:
        if not self._waiting:
            self.add(_with_keys(pl.DataFrame(empty_table("matches")), None, 0))
        return self._reduce(pl.concat(self._waiting))


def _kept_rows(frames: Sequence[pl.DataFrame] | MatchBatches, groups: pl.DataFrame) -> pl.DataFrame:
    """The rows at the places that ``groups`` name."""
    copies = pl.col("relation").is_in(COPIES)  # the first of them adds nothing to the others
    first = groups.select(pl.when(copies).then("listed").otherwise("first")).to_series()
    kept = pl.concat([first, groups["listed"], groups["smallest"]]).unique().sort().to_numpy()
    counts = groups.select(pl.col("listed").alias(PLACE), ROWS)
    pieces = [pl.DataFrame(empty_table("matches")).with_columns(pl.lit(0, pl.Int64).alias(PLACE))]
    start = 0
    for frame in frames:
        end = start + len(frame)
        places = kept[np.searchsorted(kept, start) : np.searchsorted(kept, end)]
        rows = frame[places - start].with_columns(pl.Series(PLACE, places))
        pieces.append(pl.DataFrame(rows.to_arrow()))  # without the texts of the rows that go
        start = end
    return (
        pl.concat(pieces)
        .join(counts, on=PLACE, how="left", maintain_order="left")
        .with_columns(pl.col(ROWS).fill_null(0))
    )
