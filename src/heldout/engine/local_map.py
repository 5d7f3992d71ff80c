"""LocalMap: one map over worker processes, and what happens when one of them dies."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from multiprocessing import connection
from typing import Generic, Protocol

from heldout.engine.engine import Outcome, Result, Task, describe_error
from heldout.engine.task_queue import TaskQueue
from heldout.engine.worker import Job, Worker
from heldout.engine.worker_main import BROKEN, VALUE
from heldout.errors import HeldoutError, InputError

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
        self._name = object()  # tells the workers' copies of this function from another map's
        ahead = 2 * _JOBS_PER_WORKER * pool.workers
        self._queue = TaskQueue[Task, Result](tasks, ordered=ordered, ahead=ahead)
        self._workers: list[Worker] = []
        self._again: deque[Job] = deque()  # waited in a worker that died: not suspected
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
                # The timeout is for a death that the pipe does not tell: a grandchild holds it.
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
        except Exception as error:  # a value may pickle and yet not come back
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
                    f"worker processes end while they start ({death}). In a script, call heldout "
                    f"under 'if __name__ == \"__main__\":'; or use one worker"
                )
        self._again.extend(jobs)


def _times(count: int) -> str:
    return "while" if count == 1 else f"{count} times while"
