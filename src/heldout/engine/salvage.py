"""Salvage: a task that failed is done again in smaller and smaller pieces, until what fails is small.

A task may raise, or kill its worker: a picture that needs more memory than there is, a decoder that
crashes. Pieces are tasks like any other, so the engine isolates them as it isolates tasks, and what
is lost in the end is the one item that cannot be done, not its neighbours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable
from typing import Generic, Protocol

from heldout.engine.engine import Engine, Outcome, Result, Task

PIECES = 16
_FIRST_TRIES = 2  # the second time nothing runs beside it
_LOST_AT_ONCE = 8  # pieces; where all are lost, it is not the items' fault
_MOST_LOST = 64  # items of one task: each may have cost several workers


class Salvage(Protocol[Task, Result]):
    """How the tasks of one map are taken apart and their results put together."""

    def split(self, engine: Engine, task: Task) -> list[Task]:
        """``task`` as a few smaller ones, in order; none where it is one item or cannot be read."""
        ...

    def is_item(self, task: Task) -> bool:
        """Whether ``task`` is a single item."""
        ...

    def lost(self, engine: Engine, task: Task, error: str) -> Result:
        """The result that says a single item was lost, and why."""
        ...

    def join(self, task: Task, results: list[Result]) -> Result:
        """One result of ``task`` from those of its pieces, in their order."""
        ...


def map_salvaged(
    engine: Engine,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    salvage: Salvage[Task, Result],
) -> Generator[Outcome[Task, Result], None, None]:
    """``engine.map``, and at its end every task that failed once more in pieces.

    A task of which nothing can be saved keeps its error.
    """
    failed: list[Outcome[Task, Result]] = []
    with contextlib.closing(engine.map(function, tasks, tries=_FIRST_TRIES)) as outcomes:
        for outcome in outcomes:
            if outcome.ok:
                yield outcome
            else:
                failed.append(outcome)
    hopeless: set[str] = set()
    for outcome in failed:
        error = outcome.error or "no result"
        if error in hopeless:  # whatever it is, it is not one item of one task
            yield outcome
            continue
        value = _Redo(engine, function, salvage).run(outcome.task, error)
        if value is None:
            hopeless.add(error)
            yield outcome
        else:
            yield Outcome(outcome.index, outcome.task, value=value)


class _Redo(Generic[Task, Result]):
    """One task in pieces; given up when item after item is lost."""

    def __init__(
        self,
        engine: Engine,
        function: Callable[[Task], Result],
        salvage: Salvage[Task, Result],
    ) -> None:
        self.engine, self.function, self.salvage = engine, function, salvage
        self.lost = 0  # items
        self.failed = 0  # pieces, before any was saved
        self.saved = False

    def run(self, task: Task, error: str) -> Result | None:
        """The result of what could be done of ``task``; None where it is not worth going on."""
        pieces = self.salvage.split(self.engine, task)
        if not pieces:
            return self._once_more(task, error)
        record: dict[int, Result] = {}
        failed: list[Outcome[Task, Result]] = []
        with contextlib.closing(self.engine.map(self.function, pieces, tries=1)) as outcomes:
            for outcome in outcomes:
                if outcome.value is not None:
                    record[outcome.index] = outcome.value
                    self.saved = True
                else:
                    failed.append(outcome)
                    self.failed += 1
                if self.failed >= _LOST_AT_ONCE and not self.saved:
                    return None
        for outcome in sorted(failed, key=lambda outcome: outcome.index):
            value = self.run(outcome.task, outcome.error or "no result")
            if value is None or self.lost > _MOST_LOST:
                return None
            record[outcome.index] = value
        return self.salvage.join(task, [record[place] for place in sorted(record)])

    def _once_more(self, task: Task, error: str) -> Result | None:
        """A single item, alone: it may have died of its neighbours' hunger."""
        if self.salvage.is_item(task):
            (outcome,) = self.engine.map(self.function, [task], tries=1)
            if outcome.value is not None:
                return outcome.value
            self.lost += 1
            return self.salvage.lost(self.engine, task, outcome.error or error)
        return None
