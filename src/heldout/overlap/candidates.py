"""Candidates: pairs that a hash or an encoder found alike, before anybody decided what they are."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from heldout.corpus import Shard
from heldout.store import Stage

PAIRS = 64  # pairs of pictures of one task; each task reads its shard once more


class Found(NamedTuple):
    """How a pair was found."""

    method: str  # pdq, phash or an encoder's identity
    similarity: float
    view: str  # of the benchmark's picture, in which they are alike


@dataclass(frozen=True)
class Candidate:
    picture: str
    corpus_id: str
    digest: str  # of the corpus picture; "" where nobody knows it
    found: tuple[Found, ...]  # by all who found it, what is compared first


@dataclass(frozen=True)
class VerifyTask:
    """Some candidates of one shard; a shard with many is read by several workers."""

    index: int
    shard: Shard
    candidates: tuple[Candidate, ...]


def candidate_rows(stage: Stage) -> Iterator[dict[str, Any]]:
    for path in stage.parts("candidates"):
        yield from pq.read_table(path).to_pylist()


def nearest_overall(rows: Iterable[Mapping[str, Any]], nearest: int) -> list[Mapping[str, Any]]:
    """Rows of the ``nearest`` pictures of the whole corpus to each of ours.

    Items that show one picture are one picture here, however often a corpus repeats it.
    """
    best: dict[str, dict[str, float]] = defaultdict(dict)
    kept = list(rows)
    for row in kept:
        shown = row["digest"] or row["corpus_id"]
        known = best[row["picture"]].get(shown, -2.0)
        best[row["picture"]][shown] = max(known, row["similarity"])
    chosen = {
        picture: set(sorted(record, key=lambda shown: (-record[shown], shown))[:nearest])
        for picture, record in best.items()
    }
    return [row for row in kept if (row["digest"] or row["corpus_id"]) in chosen[row["picture"]]]


def by_shard(*sources: Iterable[Mapping[str, Any]]) -> dict[int, list[Candidate]]:
    """Per shard its pairs, each once, with all that found it; earlier sources are named first."""
    found: dict[tuple[int, str, str], list[Found]] = defaultdict(list)
    digests: dict[tuple[int, str], str] = {}
    for row in itertools.chain.from_iterable(sources):
        where = (row["shard"], row["corpus_id"])
        found[(*where, row["picture"])].append(Found(row["method"], row["similarity"], row["view"]))
        digests[where] = digests.get(where) or row["digest"]
    result: dict[int, list[Candidate]] = defaultdict(list)
    for (shard, corpus_id, picture), how in sorted(found.items(), key=lambda one: one[0]):
        digest = digests[shard, corpus_id]
        result[shard].append(Candidate(picture, corpus_id, digest, tuple(how)))
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
            if judged >= PAIRS:
                yield VerifyTask(index, shards[number], tuple(waiting))
                index, waiting, judged = index + 1, [], 0
        if waiting:
            yield VerifyTask(index, shards[number], tuple(waiting))
            index += 1
