"""Where work runs: one interface to map functions over tasks; and how many cores there are."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from heldout.errors import MachineError, machine_trouble

Task = TypeVar("Task")
Result = TypeVar("Result")

_MESSAGE_LIMIT = 2000  # characters: an error may quote the data that caused it
_FRAMES = 6
TRIES = 3
_EXHAUSTED = f"{MachineError.__name__}: "


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """The outcome of one task: a value, or the error that ended it as text (``error``)."""

    index: int  # the task's position among the tasks
    task: Task
    value: Result | None = None
    error: str | None = None  # "ValueError: its message"
    traceback: str | None = None  # where it was raised; none when the worker died

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True)
class Kind(Generic[Task, Result]):
    """Tasks of one kind, of several that run at the same time."""

    function: Callable[[Task], Result]
    tasks: Iterable[Task]
    on_gpu: bool = False


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
        on_gpu: bool = False,
    ) -> Generator[Outcome[Task, Result], None, None]:
        """Outcomes as they finish (or in task order with ``ordered``). With ``on_gpu``, a cluster that has
        GPUs gives each task one.

        Tasks are drawn lazily, a bounded number ahead of the workers. A task that raises gives an
        Outcome with ``error`` and stops nothing; a worker that dies has its tasks tried again, and
        a task that kills ``tries`` workers becomes an error Outcome. If a task finds the disk full or cannot
        open more files, so would the next: a MachineError ends the map. Closing the
        iterator (or Ctrl-C) cancels what is still running.
        """
        ...

    def map_kinds(
        self, kinds: Sequence[Kind[Any, Any]], *, tries: int = TRIES
    ) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
        """``map`` over several kinds of tasks at once: (place of the kind, outcome) as they finish.

        Kinds take turns on the cores. A cluster that has GPUs runs those of kinds that are ``on_gpu`` there, and
        the others beside them. Of each kind a bounded number of tasks is drawn ahead.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def describe_error(error: BaseException) -> tuple[str, str]:
    """An exception as text: one line with the error, and the last frames of its traceback.

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
    """``outcomes``, ended by a MachineError as soon as one of them reports that the machine ran out of a
    resource."""
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


# Several kinds of tasks in one map: each task carries its kind, and one function holds those of all kinds.


class KindTask(NamedTuple):
    kind: int
    position: int  # among the tasks of its kind
    task: Any


def run_kind(functions: Sequence[Callable[[Any], Any]], task: KindTask) -> Any:
    return functions[task.kind](task.task)


def tasks_of_kinds(kinds: Sequence[Kind[Any, Any]]) -> list[Iterator[KindTask]]:
    return [
        map(KindTask, itertools.repeat(place), itertools.count(), kind.tasks)
        for place, kind in enumerate(kinds)
    ]


def in_turn(streams: Iterable[Iterator[Task]]) -> Iterator[Task]:
    """The first of every stream, then the second; streams that have ended are left out."""
    waiting = deque(streams)
    while waiting:
        stream = waiting.popleft()
        for task in itertools.islice(stream, 1):
            waiting.append(stream)
            yield task


def by_kind(
    outcomes: Generator[Outcome[KindTask, Any], None, None],
) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
    with contextlib.closing(outcomes):
        for outcome in outcomes:
            kind, position, task = outcome.task
            yield kind, replace(outcome, index=position, task=task)


# TaskQueue: tasks drawn one by one, outcomes let out as they finish or in task order.


class TaskQueue(Generic[Task, Result]):
    """Both ends of a map. With ``ordered``, at most ``ahead`` tasks are drawn past the oldest one
    that has not finished, so that one slow task does not fill the memory with its successors."""

    def __init__(self, tasks: Iterable[Task], *, ordered: bool, ahead: int) -> None:
        self._tasks = iter(tasks)
        self._ordered = ordered
        self._ahead = ahead
        self._drawn = 0
        self._released = 0
        self.exhausted = False
        self._waiting: dict[int, Outcome[Task, Result]] = {}

    def draw(self) -> tuple[int, Task] | None:
        """The next task and its index; None when there is none, or none may be drawn yet."""
        if self.exhausted or (self._ordered and self._drawn - self._released >= self._ahead):
            return None
        try:
            task = next(self._tasks)
        except StopIteration:
            self.exhausted = True
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


# Salvage: a failed task is run again in smaller and smaller pieces, until only single items fail.
#
# A task may raise, or kill its worker: a picture that needs more memory than there is, a decoder that
# crashes. Pieces are tasks like any other, so the engine isolates them as it isolates tasks, and what
# is lost in the end is the one item that cannot be done, not its neighbours.


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


@dataclass(frozen=True)
class Work(Generic[Task, Result]):
    """A kind of tasks, how those that fail are taken apart, and what is done with every outcome."""

    kind: Kind[Task, Result]
    salvage: Salvage[Task, Result]
    keep: Callable[[Outcome[Task, Result]], None]


def work_together(engine: Engine, works: Sequence[Work[Any, Any]]) -> None:
    """Do several works at the same time: one may need GPUs while another needs cores."""
    with contextlib.closing(_salvaged(engine, works)) as outcomes:
        for work, outcome in outcomes:
            work.keep(outcome)


def map_salvaged(
    engine: Engine,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    salvage: Salvage[Task, Result],
) -> Generator[Outcome[Task, Result], None, None]:
    """``engine.map``, and at its end every task that failed once more in pieces.

    A task of which nothing can be saved keeps its error.
    """
    work = Work(Kind(function, tasks), salvage, lambda _: None)
    with contextlib.closing(_salvaged(engine, [work])) as outcomes:
        for _, outcome in outcomes:
            yield outcome


def _salvaged(
    engine: Engine, works: Sequence[Work[Any, Any]]
) -> Generator[tuple[Work[Any, Any], Outcome[Any, Any]], None, None]:
    failed: list[tuple[Work[Any, Any], Outcome[Any, Any]]] = []
    kinds = [work.kind for work in works]
    with contextlib.closing(engine.map_kinds(kinds, tries=_FIRST_TRIES)) as outcomes:
        for place, outcome in outcomes:
            if outcome.ok:
                yield works[place], outcome
            else:
                failed.append((works[place], outcome))
    hopeless: set[tuple[int, str]] = set()
    for work, outcome in failed:
        error = outcome.error or "no result"
        if (id(work), error) in hopeless:  # then single items are not the cause
            yield work, outcome
            continue
        value = _Redo(engine, work.kind, work.salvage).run(outcome.task, error)
        if value is None:
            hopeless.add((id(work), error))
            yield work, outcome
        else:
            yield work, Outcome(outcome.index, outcome.task, value=value)


class _Redo(Generic[Task, Result]):
    """One task in pieces; given up when item after item is lost."""

    def __init__(
        self, engine: Engine, kind: Kind[Task, Result], salvage: Salvage[Task, Result]
    ) -> None:
        self.engine, self.kind, self.salvage = engine, kind, salvage
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
        with contextlib.closing(self._map(pieces)) as outcomes:
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

    def _map(self, tasks: list[Task]) -> Generator[Outcome[Task, Result], None, None]:
        return self.engine.map(self.kind.function, tasks, tries=1, on_gpu=self.kind.on_gpu)

    def _once_more(self, task: Task, error: str) -> Result | None:
        """A single item, run alone: its neighbours may have used up the memory."""
        if self.salvage.is_item(task):
            (outcome,) = self._map([task])
            if outcome.value is not None:
                return outcome.value
            self.lost += 1
            return self.salvage.lost(self.engine, task, outcome.error or error)
        return None


# How many cores this process may use, and how many threads each worker should start.


_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
CORES = "HELDOUT_CORES"  # overrides usable_cores
THREAD_VARIABLES = (
    CORES,
    "OMP_NUM_THREADS",  # torch, faiss, Arrow's computations, onnxruntime through model/onnx
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",  # its threads wait by spinning: a full set per worker stops a machine
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)


def usable_cores() -> int:
    """Cores this process may run on: its affinity, its container's share of the machine, and
    ``HELDOUT_CORES``, which gives a worker its share and lets a user set one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with contextlib.suppress(OSError, ValueError):
        quota, period = _CGROUP_LIMIT.read_text().split()
        if quota != "max":
            cores = min(cores or 1, math.ceil(int(quota) / int(period)))
    message = os.environ.get(CORES, "")
    if message.isdecimal() and int(message) > 0:
        cores = min(cores or 1, int(message))
    return max(1, cores or 1)


@contextlib.contextmanager
def shared_threads(workers: int) -> Iterator[None]:
    """Processes started in this block share the cores, instead of each starting threads for all.

    Numerical libraries read these variables once, when they are imported, so the child must find
    them in its environment from the start. What the user has set is left alone.
    """
    threads = str(max(1, usable_cores() // workers))
    added = [name for name in THREAD_VARIABLES if name not in os.environ]
    # The user's HELDOUT_CORES counts for the whole program, including its workers.
    before = os.environ.get(CORES)
    os.environ.update(dict.fromkeys([*added, CORES], threads))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
        if before is not None:
            os.environ[CORES] = before
