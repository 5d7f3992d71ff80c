"""Candidates: pairs that a hash or an encoder found alike, before anybody decided what they are.

Of the pairs that hashes propose there may be more than fit into memory: they are read from the stage that holds them,
shard by shard, as often as they are needed.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.corpus import Shard
from heldout.store import Partitions, Stage

Row = Mapping[str, Any]

PAIRS = 64  # pairs of pictures of one task; each task reads its shard once more
_FIRST_PAIRS = 4  # of the first task; the next have twice as many each, so that progress soon moves


class CandidateOrigin(NamedTuple):
    """How a pair was found."""

    method: str  # pdq, phash or an encoder's identity
    similarity: float
    view: str  # of the benchmark's picture, in which they are alike


@dataclass(frozen=True)
class Candidate:
    picture: str
    corpus_id: str
    digest: str  # of the corpus picture; "" if unknown
    origins: tuple[CandidateOrigin, ...]  # by all who found it, what is compared first
    template: bool = False  # one of the two resembles many others
    series: bool = False  # … or hangs together with many, each of which resembles some other


@dataclass(frozen=True)
class VerifyTask:
    """Some candidates of one shard; a shard with many is read by several workers."""

    index: int
    shard: Shard
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class StagedCandidates:
    """The candidates of a stage by shard of the corpus, in its order; read anew each time."""

    stage: Stage

    def __iter__(self) -> Iterator[tuple[int, pl.DataFrame]]:
        for index, table in self.stage.indexed_parts("candidates"):
            # The shard may have moved up or down the list since it was compared.
            yield index, pl.DataFrame(table).with_columns(pl.lit(index, pl.Int64).alias("shard"))


def candidate_rows(stage: Stage) -> Iterator[dict[str, Any]]:
    for _, frame in StagedCandidates(stage):
        yield from frame.to_dicts()


def nearest_overall(
    rows: Iterable[Mapping[str, Any]],
    nearest: int,
    outstanding: Mapping[str, tuple[float, float]] | None = None,
) -> list[Mapping[str, Any]]:
    """Rows of the ``nearest`` pictures of the whole corpus to each of ours, in each aspect of the encoder.

    Items that show one picture are one picture here, however often a corpus repeats it. A pair that
    several aspects propose is one row. Of the aspects in ``outstanding`` the nearest is kept, and those
    after it that are so many times as similar as the last, or so similar at all. So are all that are
    as similar as no two strangers, unless there are so many that they share a template.
    """
    kept = list(rows)
    chosen = {
        (picture, aspect): _outstanding(record, nearest, (outstanding or {}).get(aspect))
        for (picture, aspect), record in _best_scores(kept).items()
    }
    templates = crowded(kept)
    pairs: dict[tuple[str, int, str], Mapping[str, Any]] = {}
    for row in kept:
        shown = row["digest"] or row["corpus_id"]
        sure = row.get("sure") and row["picture"] not in templates
        if sure or shown in chosen[row["picture"], row.get("aspect") or ""]:
            pair = (row["picture"], row["shard"], row["corpus_id"])
            known = pairs.get(pair)
            if known is None or (row["similarity"], row["view"]) > (
                known["similarity"],
                known["view"],
            ):
                pairs[pair] = row
    return list(pairs.values())


def nearest_so_far(rows: Iterable[Mapping[str, Any]], nearest: int) -> list[Mapping[str, Any]]:
    """Of the rows of any number of shards those that can count: ``nearest_overall``, ``crowded`` and ``in_series``
    say the same of them. What is not among the nearest of the shards so far never will be."""
    following = iter(rows)
    kept: list[Mapping[str, Any]] = []
    while some := list(itertools.islice(following, max(_HELD, len(kept)))):
        kept += some
        ranked = {key: _ranked(record, nearest) for key, record in _best_scores(kept).items()}
        kept = [
            row
            for row in kept
            if row.get("sure")
            or (row["digest"] or row["corpus_id"])
            in ranked[row["picture"], row.get("aspect") or ""]
        ]
    return kept


_HELD = 1 << 17  # rows that are looked through at a time


def _best_scores(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    """By picture and aspect, the score of every picture of the corpus."""
    best: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        of_aspect = best[row["picture"], row.get("aspect") or ""]
        shown = row["digest"] or row["corpus_id"]
        of_aspect[shown] = max(of_aspect.get(shown, -2.0), _score(row))
    return best


def _ranked(record: Mapping[str, float], nearest: int) -> list[str]:
    return sorted(record, key=lambda shown: (-record[shown], shown))[:nearest]


def crowded(rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Pictures to which more than HUB are as similar as no two strangers: charts of one template."""
    alike: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.get("sure"):
            alike[row["picture"]].add(row["digest"] or row["corpus_id"])
    return frozenset(picture for picture, shown in alike.items() if len(shown) > HUB)


def in_series(rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Pictures of both sides that more than HUB others hang together with, each as similar to some other as
    no two strangers: charts of one template, slices of one volume."""
    leader: dict[str, str] = {}

    def first(picture: str) -> str:
        while (above := leader.setdefault(picture, picture)) != picture:
            leader[picture] = leader[above]
            picture = above
        return picture

    for row in rows:
        if row.get("sure"):
            leader[first(row["picture"])] = first(row["digest"] or row["corpus_id"])
    sizes = Counter(map(first, list(leader)))
    return frozenset(picture for picture in leader if sizes[first(picture)] > HUB)


def _outstanding(
    record: Mapping[str, float], nearest: int, bars: tuple[float, float] | None
) -> set[str]:
    ranked = _ranked(record, nearest)
    if bars is None or len(ranked) < nearest or nearest < _FEWEST:
        return set(ranked)
    # Where even the last is as near as a copy, there may be more copies than places.
    times, worth = bars
    bar = min(times * record[ranked[-1]], (1 + record[ranked[-1]]) / 2, worth)
    return {ranked[0], *(shown for shown in ranked if record[shown] >= bar)}


_FEWEST = 3  # places, of which the last can be taken for a stranger's


def _score(row: Mapping[str, Any]) -> float:
    score = row.get("score")
    return float(row["similarity"] if score is None else score)


HUB = 8  # pictures within a hash's radius of one, from which on it is one of a series or a template
_NEAREST_IN_HUB = 3


ShardFrames = Iterable[tuple[int, pl.DataFrame]]  # candidates by shard; can be read again
_SHOWN = (
    pl.when(pl.col("digest").fill_null("") != "")
    .then("digest")
    .otherwise("corpus_id")
    .alias("shown")
)


@dataclass(frozen=True)
class SomeRows:
    """By shard the rows of candidates that ``choose`` marks; read anew each time."""

    shards: ShardFrames
    choose: Callable[[pl.DataFrame], NDArray[np.bool_]]

    def __iter__(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        for shard, frame in self.shards:
            rows = frame.filter(self.choose(frame)).to_dicts()
            if rows:
                yield shard, rows


@dataclass(frozen=True)
class WithoutTemplates:
    """Candidates by hash without those that only share a template.

    Charts of one template and slices of one volume lie within the radius of each other by the dozen:
    a hash cannot tell them apart. Of a picture with more than HUB neighbours only the nearest few are
    verified at first, and so of a corpus picture; a copy among the others is the encoder's to find.

    Held are the nearest of the benchmark's pictures, and 20 bytes for every picture of the corpus that stands for a
    template.
    """

    shards: ShardFrames
    names: Mapping[str, int]  # the benchmark's pictures that have a neighbour
    ours: Mapping[str, frozenset[str]]  # of those with too many: their nearest
    crowds: NDArray[np.uint64]  # digests of corpus pictures with too many, sorted
    theirs: NDArray[np.int32]  # … and their nearest

    @classmethod
    def of(cls, shards: ShardFrames) -> WithoutTemplates:
        # By the hash with more bits first: by the other, templates are as near as copies.
        near: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        names: dict[str, int] = {}
        columns = {"shown": np.uint64, "picture": np.int32, "fine": float, "coarse": float}
        with Partitions(columns, by="shown") as pairs:
            for _, frame in shards:
                nearness = _nearness(frame)
                for picture, shown, fine, coarse in nearness.iter_rows():
                    names.setdefault(picture, len(names))
                    known = near[picture].get(shown, (-1.0, -1.0))
                    near[picture][shown] = (max(fine, known[0]), max(coarse, known[1]))
                for picture in nearness["picture"].unique():
                    if len(near[picture]) > _FORGOTTEN:
                        near[picture] = {o: near[picture][o] for o in _last(near[picture], HUB + 1)}
                pairs.add(
                    shown=_short(nearness["shown"]),
                    picture=np.asarray([names[name] for name in nearness["picture"]], np.int32),
                    fine=nearness["fine"].to_numpy(),
                    coarse=nearness["coarse"].to_numpy(),
                )
            rank = np.argsort(np.argsort(np.asarray(list(names))))
            crowds = [_crowds(part, rank) for part in pairs]
        keys = np.concatenate([np.zeros(0, np.uint64), *(keys for keys, _ in crowds)])
        theirs = np.concatenate([np.zeros((0, _NEAREST_IN_HUB), np.int32), *(t for _, t in crowds)])
        order = np.argsort(keys)
        ours = {
            picture: frozenset(_last(others, _NEAREST_IN_HUB))
            for picture, others in near.items()
            if len(others) > HUB
        }
        return cls(shards, names, ours, keys[order], theirs[order])

    @property
    def kept(self) -> SomeRows:
        return SomeRows(self.shards, self._stay)

    @property
    def passed_over(self) -> SomeRows:
        return SomeRows(self.shards, lambda frame: ~self._stay(frame))

    def __contains__(self, side: object) -> bool:
        """Whether a picture of ours, or the digest of a corpus picture, stands for a template."""
        return side in self.ours or bool(self._places(pl.Series([side], dtype=pl.String))[1][0])

    def _places(self, shown: pl.Series) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        keys = _short(shown)
        places = np.searchsorted(self.crowds, keys)
        places[places == len(self.crowds)] = 0
        return places, self.crowds[places] == keys if len(self.crowds) else np.zeros(
            len(keys), bool
        )

    def _stay(self, frame: pl.DataFrame) -> NDArray[np.bool_]:
        shown = frame.select(_SHOWN).to_series()
        pictures = frame["picture"].to_list()
        near = (
            picture not in self.ours or other in self.ours[picture]
            for picture, other in zip(pictures, shown.to_list(), strict=True)
        )
        stay = np.fromiter(near, bool, len(pictures))
        places, crowded = self._places(shown)
        if crowded.any():
            numbers = np.asarray([self.names[picture] for picture in pictures], np.int32)
            nearest = (self.theirs[places] == numbers[:, None]).any(axis=1)
            stay &= ~crowded | nearest
        return stay

    def to_verify(
        self, copies: Callable[[int], Container[tuple[str, str]]], near: Iterable[Row] = ()
    ) -> SomeRows | None:
        """Of what was passed over, the neighbours of a picture whose nearest ones are mostly copies.

        ``copies``: by shard, (picture, corpus item) of what was found to be one. ``near``: what an encoder
        proposed, which was verified with them: no pair is judged twice.
        """
        looked: Counter[str] = Counter()
        proven: Counter[str] = Counter()
        for (
            shard,
            rows,
        ) in self.kept:  # a picture of ours keeps few, so there are few names to count
            sides = {
                (row["picture"], row["corpus_id"]): (
                    row["picture"],
                    row["digest"] or row["corpus_id"],
                )
                for row in rows
            }
            known = copies(shard)
            for pair, both in sides.items():
                looked.update(both)
                proven.update(both if pair in known else ())
        copied = [side for side, count in proven.items() if count > 1 and 2 * count > looked[side]]
        if not copied:
            return None
        mostly = pl.col("picture").is_in(copied) | _SHOWN.is_in(copied)
        names = ("shard", "picture", "corpus_id")
        verified = {tuple(row[name] for name in names) for row in near}

        def wanted(frame: pl.DataFrame) -> NDArray[np.bool_]:
            chosen: NDArray[np.bool_] = frame.select(mostly).to_series().to_numpy()
            pairs = frame.select(names).iter_rows()
            new = np.fromiter((pair not in verified for pair in pairs), bool, len(frame))
            return np.asarray(chosen & ~self._stay(frame) & new)

        return SomeRows(self.shards, wanted)


_FORGOTTEN = 8 * HUB  # neighbours of one picture, of which the farthest are then forgotten


def _last(others: Mapping[str, tuple[float, float]], count: int) -> list[str]:
    return sorted(others, key=lambda other: (others[other], other))[-count:]


def _nearness(frame: pl.DataFrame) -> pl.DataFrame:
    """Of every two pictures how near they are by either hash."""
    by_pdq = pl.col("method") == "pdq"
    return (
        frame.select(
            "picture",
            _SHOWN,
            pl.when(by_pdq).then("similarity").otherwise(-1.0).alias("fine"),
            pl.when(by_pdq).then(-1.0).otherwise("similarity").alias("coarse"),
        )
        .group_by("picture", "shown")
        .max()
    )


def _short(texts: pl.Series) -> NDArray[np.uint64]:
    """64 bits of each: two of 10^7 share them once in 400,000 searches."""
    return texts.hash(1).to_numpy()


def _crowds(
    pairs: NDArray[Any], rank: NDArray[np.intp]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Of the corpus pictures with more than HUB neighbours, the digests and the nearest."""
    pairs = pairs[np.lexsort((pairs["picture"], pairs["shown"]))]
    new = np.ones(len(pairs), bool)
    new[1:] = (pairs["shown"][1:] != pairs["shown"][:-1]) | (
        pairs["picture"][1:] != pairs["picture"][:-1]
    )
    first = np.flatnonzero(new)
    if not len(first):
        return np.zeros(0, np.uint64), np.zeros((0, _NEAREST_IN_HUB), np.int32)
    fine, coarse = (np.maximum.reduceat(pairs[name], first) for name in ("fine", "coarse"))
    shown, picture = pairs["shown"][first], pairs["picture"][first]
    order = np.lexsort((rank[picture], coarse, fine, shown))
    keys, counts = np.unique(shown, return_counts=True)
    many, ends = counts > HUB, np.cumsum(counts)
    last = ends[many][:, None] - np.arange(1, _NEAREST_IN_HUB + 1)
    return keys[many], picture[order][last]


@dataclass(frozen=True)
class PairsByShard:
    """By shard, its pairs with all that found them. ``near`` is held, ``hashed`` is read anew each time."""

    near: Iterable[Row]
    hashed: Iterable[tuple[int, Iterable[Row]]]
    templates: tuple[Container[str], ...] = ()
    series: Container[str] = field(default=())

    def __iter__(self) -> Iterator[tuple[int, list[Candidate]]]:
        near: dict[int, list[Row]] = defaultdict(list)
        for row in self.near:
            near[row["shard"]].append(row)
        sources = (
            ((shard, place, rows) for shard, rows in source)
            for place, source in enumerate((sorted(near.items()), self.hashed))
        )
        merged = heapq.merge(*sources, key=lambda entry: entry[:2])
        for shard, entries in itertools.groupby(merged, key=lambda entry: entry[0]):
            rows = (rows for _, _, rows in entries)
            yield shard, by_shard(*rows, templates=self.templates, series=self.series)[shard]


def by_shard(
    *sources: Iterable[Row],
    templates: tuple[Container[str], ...] = (),
    series: Container[str] = (),
) -> dict[int, list[Candidate]]:
    """Per shard its pairs, each once, with all that found it; earlier sources are named first."""
    origins: dict[tuple[int, str, str], list[CandidateOrigin]] = defaultdict(list)
    digests: dict[tuple[int, str], str] = {}
    for row in itertools.chain.from_iterable(sources):
        where = (row["shard"], row["corpus_id"])
        origins[(*where, row["picture"])].append(
            CandidateOrigin(row["method"], row["similarity"], row["view"])
        )
        digests[where] = digests.get(where) or row["digest"]
    result: dict[int, list[Candidate]] = defaultdict(list)
    for (shard, corpus_id, picture), how in sorted(origins.items(), key=lambda entry: entry[0]):
        digest = digests[shard, corpus_id]
        sides = (picture, digest or corpus_id)
        template = any(side in names for names in templates for side in sides)
        one_of_many = any(side in series for side in sides)
        result[shard].append(
            Candidate(picture, corpus_id, digest, tuple(how), template, one_of_many)
        )
    return dict(result)


def verify_tasks(
    shards: Mapping[int, Shard], pairs: Iterable[tuple[int, list[Candidate]]]
) -> Iterator[VerifyTask]:
    """Tasks of about PAIRS of the ``pairs`` by shard, those of one corpus picture together: it is judged once,
    however many items show it.

    Corpus pictures that resemble the same picture of ours come one after the other, since a worker
    remembers what it computed of the last few hundred of ours.
    """

    def shown(candidate: Candidate) -> str:
        return candidate.digest or candidate.corpus_id

    index = 0
    for number, candidates in pairs:
        waiting: list[Candidate] = []
        judged = 0
        ordered = sorted(
            candidates,
            key=lambda candidate: (shown(candidate), candidate.corpus_id, candidate.picture),
        )
        groups = [list(group) for _, group in itertools.groupby(ordered, key=shown)]
        for group in sorted(
            groups, key=lambda group: min(candidate.picture for candidate in group)
        ):
            waiting += group
            judged += len({candidate.picture for candidate in group})
            if judged >= min(PAIRS, _FIRST_PAIRS << index):
                yield VerifyTask(index, shards[number], tuple(waiting))
                index, waiting, judged = index + 1, [], 0
        if waiting:
            yield VerifyTask(index, shards[number], tuple(waiting))
            index += 1
