"""What is saved of a shard that failed: its items one by one, and a word about those that are lost."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from heldout.corpus import Corpus, Shard, read_items
from heldout.engine import PIECES, Engine
from heldout.store import (
    FAILED,
    OUT_OF_MEMORY,
    WORKER_DIED,
    Dropped,
    ShardResult,
    Stage,
    dropped_table,
)

# Candidates: pairs that a hash or an encoder found alike, before anybody decided what they are.


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


def candidate_rows(stage: Stage) -> Iterator[dict[str, Any]]:
    for table in stage.parts("candidates"):
        yield from table.to_pylist()


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


@dataclass(frozen=True)
class WithoutTemplates:
    """Candidates by hash without those that only share a template.

    Charts of one template and slices of one volume lie within the radius of each other by the dozen:
    a hash cannot tell them apart. Of a picture with more than HUB neighbours only the nearest few are
    verified at first, and so of a corpus picture; a copy among the others is the encoder's to find.
    """

    kept: list[Mapping[str, Any]]
    passed_over: list[Mapping[str, Any]]
    templates: frozenset[str]  # pictures of ours and digests of the corpus that stand for one

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> WithoutTemplates:
        every = list(rows)
        # By the hash with more bits first: by the other, templates are as near as copies.
        near: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        for row in every:
            picture, shown = row["picture"], row["digest"] or row["corpus_id"]
            own = row["similarity"]
            for side, other in ((picture, shown), (shown, picture)):
                fine, coarse = near[side].get(other, (-1.0, -1.0))
                near[side][other] = (
                    (max(fine, own), coarse) if row["method"] == "pdq" else (fine, max(coarse, own))
                )
        nearest = {
            side: set(sorted(values, key=lambda other: (values[other], other))[-_NEAREST_IN_HUB:])
            for side, values in near.items()
            if len(values) > HUB
        }

        def stays(row: Mapping[str, Any]) -> bool:
            picture, shown = row["picture"], row["digest"] or row["corpus_id"]
            return shown in nearest.get(picture, (shown,)) and (
                picture in nearest.get(shown, (picture,))
            )

        kept = [row for row in every if stays(row)]
        passed_over = [row for row in every if not stays(row)]
        return cls(kept, passed_over, frozenset(nearest))

    def to_verify(self, copies: Container[tuple[str, str]]) -> list[Mapping[str, Any]]:
        """Of what was passed over, the neighbours of a picture whose nearest ones are mostly copies."""
        looked: Counter[str] = Counter()
        proven: Counter[str] = Counter()
        sides = {}
        for row in self.kept:
            pair = (row["picture"], row["corpus_id"])
            sides[pair] = (row["picture"], row["digest"] or row["corpus_id"])
        for pair, both in sides.items():
            looked.update(both)
            proven.update(both if pair in copies else ())

        def mostly_copies(side: str) -> bool:
            return proven[side] > 1 and 2 * proven[side] > looked[side]

        return [
            row
            for row in self.passed_over
            if mostly_copies(row["picture"]) or mostly_copies(row["digest"] or row["corpus_id"])
        ]


def by_shard(
    *sources: Iterable[Mapping[str, Any]],
    templates: Container[str] = (),
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
        template, one_of_many = (
            any(side in names for side in sides) for names in (templates, series)
        )
        result[shard].append(
            Candidate(picture, corpus_id, digest, tuple(how), template, one_of_many)
        )
    return dict(result)


def verify_tasks(
    shards: Mapping[int, Shard], pairs: Mapping[int, list[Candidate]]
) -> Iterator[VerifyTask]:
    """Tasks of about PAIRS pairs, those of one corpus picture together: it is judged once, however
    many items show it.

    Corpus pictures that resemble the same picture of ours come one after the other, since a worker
    remembers what it computed of the last few hundred of ours.
    """

    def shown(candidate: Candidate) -> str:
        return candidate.digest or candidate.corpus_id

    index = 0
    for number in sorted(pairs):
        waiting: list[Candidate] = []
        judged = 0
        ordered = sorted(
            pairs[number],
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


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Listed:
    """How many items a shard gives, and the error that ended it early."""

    items: int
    error: str | None = None


@dataclass
class ShardSalvage(Generic[Result]):
    """Takes shards apart by their items. ``of_lost`` is the result of a piece that is one lost item,
    or (``scope`` "many") of what a reader could not read."""

    corpus: Corpus
    of_lost: Callable[[Dropped], Result]
    of_pieces: Callable[[Sequence[Result]], Result]

    def __post_init__(self) -> None:
        self._cut: dict[int, Dropped] = {}  # by shard, what its reader did not read

    def split(self, engine: Engine, task: Shard) -> list[Shard]:
        if task.span is None:
            (listed,) = engine.map(functools.partial(list_items, self.corpus), [task])
            if listed.value is None:  # reading alone fails, too
                return []
            if listed.value.error is not None:
                detail = f"after {listed.value.items:,} items: {listed.value.error}"
                self._cut[task.index] = Dropped(
                    "corpus", task.id, "shard cut short", detail, scope="many"
                )
            start, stop = 0, listed.value.items
        else:
            start, stop = task.span
        if self.is_item(task):
            return []
        size = max(1, -(-(stop - start) // PIECES))
        return [
            replace(task, span=(first, min(first + size, stop)))
            for first in range(start, stop, size)
        ]

    def is_item(self, task: Shard) -> bool:
        return task.span is not None and task.span[1] - task.span[0] == 1

    def lost(self, engine: Engine, task: Shard, error: str) -> Result:
        assert task.span is not None  # it is an item
        (named,) = engine.map(functools.partial(name_item, self.corpus), [task])
        item, source = named.value or (f"{task.id} item {task.span[0] + 1}", "")
        return self.of_lost(lost_item(item, source, error))

    def join(self, task: Shard, results: list[Result]) -> Result:
        cut = self._cut.pop(task.index, None) if task.span is None else None
        return self.of_pieces([*results, *([self.of_lost(cut)] if cut is not None else [])])


def list_items(corpus: Corpus, shard: Shard) -> Listed:
    """Read a shard without looking at its items."""
    count = 0
    try:
        for _ in read_items(corpus, shard):
            count += 1
    except Exception as error:
        return Listed(count, f"{type(error).__name__}: {error}"[:500])
    return Listed(count)


def name_item(corpus: Corpus, shard: Shard) -> tuple[str, str]:
    """The id of the one item of a piece, and where it is."""
    (item,) = read_items(corpus, shard)
    source = "" if isinstance(item, Dropped) or item.image is None else item.image.source
    return item.id, source


def lost_item(item: str, source: str, error: str) -> Dropped:
    reason = FAILED
    if "MemoryError" in error:
        reason = OUT_OF_MEMORY
    elif "worker died" in error:
        reason = WORKER_DIED
    return Dropped("corpus", item, reason, f"{source}: {error}" if source else error)


def lost_result(counts: Callable[[Dropped], Mapping[str, int]], dropped: Dropped) -> ShardResult:
    return ShardResult({"dropped": dropped_table([dropped])}, dict(counts(dropped)))


def joined_results(results: Sequence[ShardResult]) -> ShardResult:
    """Tables one after the other, counts summed."""
    names = list(dict.fromkeys(name for result in results for name in result.tables))
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    return ShardResult(
        {
            name: pa.concat_tables(r.tables[name] for r in results if name in r.tables)
            for name in names
        },
        dict(counts),
    )


@dataclass
class PairSalvage:
    """Takes the pairs of a task apart that is to verify them; a pair that is lost stays unverified."""

    def split(self, engine: Engine, task: VerifyTask) -> list[VerifyTask]:
        pairs = task.candidates
        size = max(1, -(-len(pairs) // PIECES))
        if self.is_item(task):
            return []
        return [
            replace(task, candidates=pairs[start : start + size])
            for start in range(0, len(pairs), size)
        ]

    def is_item(self, task: VerifyTask) -> bool:
        return len(task.candidates) == 1

    def lost(self, engine: Engine, task: VerifyTask, error: str) -> ShardResult:
        (pair,) = task.candidates
        dropped = lost_item(pair.corpus_id, "while it was verified", error)
        counts = {"pairs": 1, "unverified_pairs": 1, "failed_pairs": 1, "missing": 1}
        return lost_result(lambda _: counts, dropped)

    def join(self, task: VerifyTask, results: list[ShardResult]) -> ShardResult:
        return joined_results(results)
