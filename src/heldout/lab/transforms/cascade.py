"""The whole cascade: the encoder's shortlist goes to a judge that says which pair is one picture."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.engine import Engine, progress
from heldout.errors import HeldoutError
from heldout.evidence import COPIES, Relation
from heldout.lab.settings import Side
from heldout.lab.transforms._counts import SimilarityCounts
from heldout.lab.transforms.queries import Collection, Item, QueryMaker, as_published
from heldout.overlap import CHANGED


@dataclass(frozen=True)
class PairJudge:
    """``same(query, candidate)`` says whether two pictures are one; None leaves it to people.

    ``prepare`` turns a picture into what ``same`` wants (its local features); it is called once
    per picture and query, not once per pair. Both travel to workers, so modules have to define them.
    """

    identity: str
    same: Callable[[Any, Any], bool | None]
    prepare: Callable[[Image.Image], Any] | None = None

    def prepared(self, image: Image.Image) -> Any:
        return image if self.prepare is None else self.prepare(image)


@dataclass(frozen=True)
class _Accepts:
    register: Callable[[Any, Any], Any]

    def __call__(self, query: Any, candidate: Any) -> bool | None:
        registration = self.register(query, candidate)
        if registration.relation == Relation.UNDECIDED or CHANGED in registration.transform:
            return None
        return registration.relation in COPIES


def judge_by_registration(
    register: Callable[[Any, Any], Any],
    *,
    identity: str = "registration",
    prepare: Callable[[Image.Image], Any] | None = None,
) -> PairJudge:
    """A judge from ``register(query, candidate)``, whose result has a ``relation`` and a
    ``transform`` in words."""
    return PairJudge(identity, _Accepts(register), prepare)


@dataclass(frozen=True)
class CascadeCounts:
    """What the judge said, queries × transforms."""

    shortlisted: NDArray[np.bool_]
    accepted: NDArray[np.bool_]
    undecided: NDArray[np.bool_]
    others: NDArray[np.int64]  # pairs of different pictures that were judged
    false: NDArray[np.int64]  # … and accepted
    accepted_others: list[tuple[str, str, int, float]]  # query, transform, position, similarity


class _JudgeTask(NamedTuple):
    query: int
    position: int
    candidates: list[tuple[int, list[int]]]  # (transform, positions of the others to judge)


class _Answer(NamedTuple):
    transform: int
    own: bool | None
    others: list[bool | None]


def judge_shortlists(
    collection: Collection,
    positions: list[int],
    maker: QueryMaker,
    counted: SimilarityCounts,
    judge: PairJudge,
    engine: Engine | None = None,
    *,
    shortlist: int,
    side: Side = "query",
    quiet: bool = False,
) -> CascadeCounts:
    """Judge every query against its own picture and against the most similar others.

    The own picture is judged even where the encoder would not have proposed it, so that the
    judge's misses and the encoder's can be separated. Of others, as many are judged as the tally
    listed, which may be more than the shortlist holds.
    """
    places, similarities = counted.others()
    shape = counted.made.shape
    shortlisted = counted.among(shortlist)
    accepted, undecided = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    others, false = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    alarms: list[tuple[str, str, int, float]] = []

    queried = {position: query for query, position in enumerate(positions)}

    def again(position: int, place: int) -> bool:
        """Two queries that list each other are one pair of pictures; the earlier one judges it."""
        other = queried.get(place, len(positions))
        return other < queried[position] and position in places[other, 0]

    def tasks() -> Iterator[_JudgeTask]:
        for query, position in enumerate(positions):
            rows = [
                (int(column), [int(place) for place in places[query, column] if place >= 0])
                for column in np.flatnonzero(counted.made[query])
            ]
            if side == "corpus":  # one query under all transforms: its others are judged once
                column, listed = rows[0]
                once = [place for place in listed if not again(position, place)]
                rows = [(column, once), *((column, []) for column, _ in rows[1:])]
            yield _JudgeTask(query, position, rows)

    function = functools.partial(_judge_query, collection, maker, judge, side)
    with progress("judging pairs", len(positions), "pictures", disabled=quiet) as step:
        for task, answers in _answers(function, tasks(), engine):
            for answer, (column, listed) in zip(answers, task.candidates, strict=True):
                accepted[task.query, column] = answer.own is True
                undecided[task.query, column] = answer.own is None
                others[task.query, column] = len(listed)
                false[task.query, column] = answer.others.count(True)
                name = collection.items[task.position].name
                for place, wrong in zip(listed, answer.others, strict=True):
                    if wrong:
                        rank = int(np.flatnonzero(places[task.query, column] == place)[0])
                        similarity = float(similarities[task.query, column, rank])
                        alarms.append((name, maker.transforms[column].name, place, similarity))
            step()
    return CascadeCounts(shortlisted, accepted, undecided, others, false, sorted(alarms))


def _answers(
    function: Callable[[_JudgeTask], list[_Answer]],
    tasks: Iterable[_JudgeTask],
    engine: Engine | None,
) -> Iterator[tuple[_JudgeTask, list[_Answer]]]:
    if engine is None:
        for task in tasks:
            yield task, function(task)
        return
    for outcome in engine.map(function, tasks):
        if outcome.value is None:  # a rate over the queries that happened to work is no rate
            raise HeldoutError(f"judging picture {outcome.task.position} failed: {outcome.error}")
        yield outcome.task, outcome.value


@functools.lru_cache(maxsize=512)
def _prepared(judge: PairJudge, item: Item) -> Any:
    return judge.prepared(as_published(item))  # queries that look alike have the same others


def _judge_query(
    collection: Collection, maker: QueryMaker, judge: PairJudge, side: Side, task: _JudgeTask
) -> list[_Answer]:
    item = collection.items[task.position]
    original = as_published(item)
    plain = judge.prepared(original)

    def candidate(position: int) -> Any:
        return _prepared(judge, collection.items[position])

    answers = []
    for column, listed in task.candidates:
        image = maker.transformed(item, original, maker.transforms[column])
        assert image is not None  # only made transforms are listed
        transformed = judge.prepared(image)
        query, copy = (transformed, plain) if side == "query" else (plain, transformed)
        wrong = [judge.same(query, candidate(position)) for position in listed]
        answers.append(_Answer(column, judge.same(query, copy), wrong))
    return answers
