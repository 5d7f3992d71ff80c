"""LocalEngine: tasks in this process, or on this machine's cores in worker processes; open_engine."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker, spawn
from typing import Any, Generic, Protocol, Self

from heldout.engine._isolated import isolated
from heldout.engine._worker_main import BROKEN, FUNCTION, MOVED, READY, STOP, TASK, VALUE, work
from heldout.engine.engine import (
    TRIES,
    Engine,
    Kind,
    Outcome,
    Result,
    Task,
    TaskQueue,
    by_kind,
    describe_error,
    in_turn,
    run_kind,
    shared_threads,
    tasks_of_kinds,
    until_exhausted,
    usable_cores,
)
from heldout.engine.ray_engine import RayEngine
from heldout.engine.underway import moved
from heldout.errors import HeldoutError, InputError

# Worker: the parent's handle on one worker process and the tasks it holds.


_CONTEXT = multiprocessing.get_context("spawn")  # a fork beside polars' and arrow's threads hangs
_STOP_SECONDS = 5.0


def _main_module() -> dict[str, str]:
    """Where the main module is, for a worker that has to load something it defines."""
    data = spawn.get_preparation_data("")
    keys = ("init_main_from_name", "init_main_from_path")
    return {key: data[key] for key in keys if key in data}


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """A process started in this block does not import the main module.

    It would run a script a second time whose calls are not under ``if __name__ == "__main__"``, and few
    tasks need anything that the script defines.
    """
    main = sys.modules["__main__"]
    hidden = {name: main.__dict__.pop(name) for name in ("__file__",) if name in main.__dict__}
    hidden["__spec__"], main.__spec__ = main.__spec__, None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


@dataclass(slots=True)
class Job:
    """A task on its way: pickled once, however often it is tried."""

    index: int
    task: Any
    body: bytes
    deaths: int = 0  # workers that died while running it


class Worker:
    """One process. Tasks are answered in the order they were sent, so when the process dies the
    first one without an answer is the one it was running."""

    def __init__(self, share: int) -> None:
        self.jobs: deque[Job] = deque()
        self.ready = False
        self.loaded: object = None  # the name of the function it has
        self.connection, child = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=work, args=(child, os.getpid(), _main_module()), daemon=True
        )
        with isolated(), child:
            resource_tracker.ensure_running()  # would unblock the signal below when started inside
            # The child is born with SIGINT blocked and ignores it before unblocking, so that Ctrl-C
            # while it imports does not print its traceback.
            previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                with shared_threads(share), _main_hidden():
                    self.process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, previous)

    def submit(self, name: object, function: bytes, job: Job) -> None:
        # A dead worker is noticed when results are received, with its job still in ``jobs``.
        self.jobs.append(job)
        with contextlib.suppress(OSError):
            if self.loaded is not name:
                self.loaded = name
                self.connection.send_bytes(FUNCTION + function)
            self.connection.send_bytes(TASK + job.body)

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next answer that is already there; EOFError when the process is dead."""
        try:
            while self.connection.poll():
                message = self.connection.recv_bytes()
                kind = message[:1]
                if kind == MOVED:
                    for name, count in pickle.loads(message[1:]).items():
                        moved(name, count)
                elif kind == READY:
                    self.ready = True
                else:
                    return kind, message[1:]
        except OSError as error:
            raise EOFError from error
        if not self.process.is_alive() and not self.connection.poll():
            raise EOFError
        return None

    def death(self) -> str:
        """How the process ended, in words."""
        self.process.join(_STOP_SECONDS)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = "; the system may have run out of memory" if -code == signal.SIGKILL else ""
        return f"{name}{hint}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join(_STOP_SECONDS)
        self.connection.close()

    def ask_to_stop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send_bytes(STOP)

    def stop(self) -> None:
        """Wait for a process that was asked to stop; kill it if it does not."""
        self.process.join(_STOP_SECONDS)
        self.kill()


# LocalMap: one map over worker processes, and what happens when one of them dies.


_JOBS_PER_WORKER = 2  # one runs, one waits, so that no worker idles while the parent is busy
_FAILED_STARTS = 3
_WAIT_SECONDS = 1.0


class _Pool(Protocol):
    workers: int

    def lend(self) -> Worker: ...

    def take_back(self, worker: Worker) -> None: ...

    def discard(self, worker: Worker) -> None: ...


class LocalMap(Generic[Task, Result]):
    """Each worker answers its tasks in order, so the task that ran when a worker died is known.

    It is tried again while nothing else runs: a task that was killed because its neighbours had
    taken the memory then gets its value, and a task that kills its worker every time is given up
    without harm to the others.
    """

    def __init__(
        self, pool: _Pool, function: bytes, tasks: Iterable[Task], *, ordered: bool, tries: int
    ) -> None:
        self._pool = pool
        self._tries = tries  # workers a task may kill before it is given up
        self._function = function
        # distinguishes the workers' copies of this function from another map's
        self._name = object()
        ahead = 2 * _JOBS_PER_WORKER * pool.workers
        self._queue = TaskQueue[Task, Result](tasks, ordered=ordered, ahead=ahead)
        self._workers: list[Worker] = []
        self._again: deque[Job] = deque()  # waited in a worker that died: not suspects
        self._suspects: deque[Job] = deque()  # ran in a worker when it died
        self._failed_starts = 0

    def run(self) -> Generator[Outcome[Task, Result], None, None]:
        try:
            while True:
                while self._has_room() and (job := self._next_job()) is not None:
                    if isinstance(job, Job):
                        self._place(job)
                    else:
                        yield from self._queue.release(job)
                busy = [worker for worker in self._workers if worker.jobs]
                if not busy:
                    return
                # The timeout is for a death that the pipe does not show because a grandchild holds it open.
                connection.wait([worker.connection for worker in busy], timeout=_WAIT_SECONDS)
                for worker in busy:
                    for outcome in self._collect(worker):
                        yield from self._queue.release(outcome)
        finally:
            for worker in self._workers:
                self._pool.take_back(worker)

    def _has_room(self) -> bool:
        busy = [worker for worker in self._workers if worker.jobs]
        if self._suspects:
            return not busy
        if any(worker.jobs[0].deaths for worker in busy):
            return False  # a suspect runs alone
        if len(self._workers) < self._pool.workers:
            return True
        return any(len(worker.jobs) < _JOBS_PER_WORKER for worker in self._workers)

    def _next_job(self) -> Job | Outcome[Task, Result] | None:
        """What to run next; the outcome of a task that cannot even be sent; None for nothing."""
        if self._suspects:
            return self._suspects.popleft()
        if self._again:
            return self._again.popleft()
        drawn = self._queue.draw()
        if drawn is None:
            return None
        index, task = drawn
        try:
            return Job(index, task, pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            text, where = describe_error(error)
            return Outcome(index, task, error=text, traceback=where)

    def _place(self, job: Job) -> None:
        """Send a job to the worker that holds the least; start one rather than let a job wait."""
        worker = min(self._workers, key=lambda worker: len(worker.jobs), default=None)
        if worker is None or (worker.jobs and len(self._workers) < self._pool.workers):
            worker = self._pool.lend()
            self._workers.append(worker)
        worker.submit(self._name, self._function, job)

    def _collect(self, worker: Worker) -> Iterator[Outcome[Task, Result]]:
        """Outcomes of one worker that are already there."""
        while worker.jobs:
            try:
                answer = worker.receive()
            except EOFError:
                yield from self._bury(worker)
                return
            if answer is None:
                return
            yield self._outcome(worker.jobs.popleft(), *answer)

    def _outcome(self, job: Job, kind: bytes, body: bytes) -> Outcome[Task, Result]:
        try:
            content = pickle.loads(body)
        except Exception as error:  # a value may be pickled and yet fail to unpickle
            text, where = describe_error(error)
            return Outcome(job.index, job.task, error=text, traceback=where)
        if kind == VALUE:
            return Outcome(job.index, job.task, value=content)
        text, where = content
        if kind == BROKEN:
            raise InputError(
                f"the function cannot be loaded in a worker process ({text}); define it in a "
                f"module that can be imported, or use one worker"
            )
        return Outcome(job.index, job.task, error=text, traceback=where)

    def _bury(self, worker: Worker) -> Iterator[Outcome[Task, Result]]:
        """A worker died: what it ran becomes a suspect or is given up, what it held goes back."""
        self._workers.remove(worker)
        death = worker.death()
        jobs, worker.jobs = worker.jobs, deque()
        self._pool.discard(worker)
        if worker.ready:
            suspect = jobs.popleft()
            suspect.deaths += 1
            if suspect.deaths < self._tries:
                self._suspects.append(suspect)
            else:
                yield Outcome(
                    suspect.index,
                    suspect.task,
                    error=f"the worker died {_times(self._tries)} running this task ({death})",
                )
        else:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                raise HeldoutError(
                    f"worker processes end while they start ({death}); use one worker"
                )
        self._again.extend(jobs)


def _times(count: int) -> str:
    return "while" if count == 1 else f"{count} times while"


class LocalEngine:
    """``workers=1`` runs tasks in this process as they are asked for; more, in processes.

    Processes are started when tasks need them and kept for the next ``map``. Functions, tasks and
    values travel as pickles, so the function has to be one that a module defines.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers: expected 1 or more, got {workers}")
        self.workers = workers if workers is not None else usable_cores()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._closed = False

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        *,
        ordered: bool = False,
        tries: int = TRIES,
        on_gpu: bool = False,  # what this machine has, every worker sees
    ) -> Generator[Outcome[Task, Result], None, None]:
        if self._closed:
            raise RuntimeError("this engine is closed")
        if self.workers == 1:
            return until_exhausted(_run_here(function, tasks))
        body = pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)
        return until_exhausted(
            LocalMap[Task, Result](self, body, tasks, ordered=ordered, tries=tries).run()
        )

    def map_kinds(
        self, kinds: Sequence[Kind[Any, Any]], *, tries: int = TRIES
    ) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
        # Workers that wait for this machine's GPU leave its cores to the others.
        look = functools.partial(run_kind, [kind.function for kind in kinds])
        return by_kind(self.map(look, in_turn(tasks_of_kinds(kinds)), tries=tries))

    def lend(self) -> Worker:
        """A worker for a map that runs: one that is idle, or a new one."""
        if self._closed:
            raise RuntimeError("this engine was closed while a map was running")
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive():
                return worker
            self.discard(worker)
        worker = Worker(share=self.workers)
        self._all.add(worker)
        return worker

    def take_back(self, worker: Worker) -> None:
        """Take back a worker from a map. One that still holds jobs is killed."""
        if worker.jobs or self._closed:
            self.discard(worker)
        else:
            self._idle.append(worker)

    def discard(self, worker: Worker) -> None:
        if worker in self._all:
            self._all.remove(worker)
            worker.kill()

    def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for worker in idle:
            worker.ask_to_stop()
        for worker in idle:
            self._all.discard(worker)
            worker.stop()
        for worker in list(self._all):
            self.discard(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run_here(
    function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Generator[Outcome[Task, Result], None, None]:
    for index, task in enumerate(tasks):
        outcome: Outcome[Task, Result]
        try:
            outcome = Outcome(index, task, value=function(task))
        except (Exception, SystemExit) as error:
            text, where = describe_error(error)
            outcome = Outcome(index, task, error=text, traceback=where)
        yield outcome


# open_engine: the engine a user names on the command line or in an audit file.


def open_engine(text: str = "local", workers: int | None = None) -> Engine:
    """Open an engine: where work runs. Use it as a context manager.

    Args:
        text: ``local``, ``ray`` (a cluster for this run), ``ray:auto``, ``ray:host:port``, or
            ``ray://host:port``.
        workers: Processes; default: one per core.
    """
    if text == "local":
        return LocalEngine(workers)
    if text == "ray":
        return RayEngine(workers=workers)
    if text.startswith("ray://"):
        return RayEngine(text, workers=workers)
    if text.startswith("ray:") and len(text) > len("ray:"):
        return RayEngine(text.removeprefix("ray:"), workers=workers)
    raise InputError(
        f"engine: got '{text}'; expected local (this machine's cores), ray (a Ray cluster started "
        f"for this run), ray:auto (the cluster this machine belongs to), ray:host:port, or "
        f"ray://host:port (a Ray client server)"
    )
