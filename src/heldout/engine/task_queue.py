"""TaskQueue: tasks drawn one by one, outcomes let out as they finish or in task order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic

from heldout.engine.engine import Outcome, Result, Task


class TaskQueue(Generic[Task, Result]):
    """Both ends of a map. With ``ordered``, at most ``ahead`` tasks are drawn past the oldest one
    that has not finished, so that one slow task does not fill the memory with its successors."""

    def __init__(self, tasks: Iterable[Task], *, ordered: bool, ahead: int) -> None:
        self._tasks = iter(tasks)
        self._ordered = ordered
        self._ahead = ahead
        self._drawn = 0
        self._released = 0
        self._exhausted = False
        self._waiting: dict[int, Outcome[Task, Result]] = {}

    def draw(self) -> tuple[int, Task] | None:
        """The next task and its index; None when there is none, or none may be drawn yet."""
        if self._exhausted or (self._ordered and self._drawn - self._released >= self._ahead):
            return None
        try:
            task = next(self._tasks)
        except StopIteration:
            self._exhausted = True
            return None
        self._drawn += 1
        return self._drawn - 1, task

    def release(self, outcome: Outcome[Task, Result]) -> Iterator[Outcome[Task, Result]]:
        """Outcomes that may leave now that ``outcome`` is known."""
        if not self._ordered:
            yield outcome
            return
        self._waiting[outcome.index] = outcome
        while self._released in self._waiting:
            # Counted before it leaves: a consumer that stops here must not see it twice.
            self._released += 1
            yield self._waiting.pop(self._released - 1)
