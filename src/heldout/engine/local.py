"""LocalEngine: tasks in this process, or on this machine's cores in worker processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable
from typing import Self

from heldout.engine.cores import usable_cores
from heldout.engine.engine import TRIES, Outcome, Result, Task, describe_error, until_exhausted
from heldout.engine.local_map import LocalMap
from heldout.engine.worker import Worker
from heldout.errors import InputError


class LocalEngine:
    """``workers=1`` runs tasks in this process as they are asked for; more, in processes.

    Processes are started when tasks need them and kept for the next ``map``. Functions, tasks and
    values travel as pickles, so the function has to be one that a module defines.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"--workers is {workers}; expected 1 or more")
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
    ) -> Generator[Outcome[Task, Result], None, None]:
        if self._closed:
            raise RuntimeError("this engine is closed")
        if self.workers == 1:
            return until_exhausted(_run_here(function, tasks))
        body = pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)
        return until_exhausted(
            LocalMap[Task, Result](self, body, tasks, ordered=ordered, tries=tries).run()
        )

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
        """A map is done with a worker. One that still holds jobs is cancelled the only sure way."""
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
