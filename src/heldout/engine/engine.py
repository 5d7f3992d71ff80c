"""Where work runs. One interface: map a function over tasks, in this process, on cores, on Ray."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from heldout.errors import MachineError, machine_trouble

Task = TypeVar("Task")
Result = TypeVar("Result")

_MESSAGE_LIMIT = 2000  # characters: an error may quote the data that caused it
_FRAMES = 6
TRIES = 3
_EXHAUSTED = f"{MachineError.__name__}: "


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """What became of one task: a value, or the error that ended it as text (``error``)."""

    index: int  # the task's position among the tasks
    task: Task
    value: Result | None = None
    error: str | None = None  # "ValueError: what it said"
    traceback: str | None = None  # where it was raised; none when the worker died

    @property
    def ok(self) -> bool:
        return self.error is None


class Engine(Protocol):
    """Runs picklable functions over tasks. ``with`` it, so that workers are stopped afterwards."""

    name: str

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        *,
        ordered: bool = False,
        tries: int = TRIES,
    ) -> Generator[Outcome[Task, Result], None, None]:
        """Outcomes as they finish (or in task order with ``ordered``).

        Tasks are drawn lazily, a bounded number ahead of the workers. A task that raises gives an
        Outcome with ``error`` and stops nothing; a worker that dies has its tasks tried again, and
        a task that kills ``tries`` workers becomes an error Outcome. Where a task finds the disk
        full or may not open more files, so would the next: a MachineError ends the map. Closing the
        iterator (or Ctrl-C) cancels what is still running.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def describe_error(error: BaseException) -> tuple[str, str]:
    """An exception as text: one line that says what, and the last frames that say where.

    Text crosses every process boundary; exceptions often do not survive pickling.
    """
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
    trouble = str(error) if isinstance(error, MachineError) else _trouble(error)
    if trouble is not None:
        return f"{_EXHAUSTED}{trouble}", frames
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be printed)"
    if len(message) > _MESSAGE_LIMIT:
        message = message[:_MESSAGE_LIMIT] + " …"
    name = type(error).__name__
    return (f"{name}: {message}" if message else name), frames


def until_exhausted(
    outcomes: Generator[Outcome[Task, Result], None, None],
) -> Generator[Outcome[Task, Result], None, None]:
    """``outcomes``, ended by a MachineError as soon as one says that the machine gave out."""
    try:
        for outcome in outcomes:
            if outcome.error is not None and outcome.error.startswith(_EXHAUSTED):
                raise MachineError(outcome.error.removeprefix(_EXHAUSTED))
            yield outcome
    finally:
        outcomes.close()


def _trouble(error: BaseException) -> str | None:
    try:
        return machine_trouble(error)
    except Exception:  # its message cannot be printed
        return None
