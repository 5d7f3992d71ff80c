"""RayMap: one map over a Ray cluster. Ray places and retries tasks; this feeds it and listens."""

from __future__ import annotations

import contextlib
import math
import pickle
import time
import uuid
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic

import heldout
from heldout.engine.engine import Outcome, Result, Task, describe_error
from heldout.engine.ray_connect import import_ray
from heldout.engine.ray_task import BROKEN, ERROR, MISSING, Reply, make_runner
from heldout.engine.task_queue import TaskQueue
from heldout.errors import InputError, PrerequisiteError

_SUBMISSIONS = 3  # by us, when Ray gave a task up for a reason that is not the task's
_PER_CORE = 2  # tasks in flight: one runs, one waits on its node
_RESOURCES_SECONDS = 10.0  # clusters grow and shrink; how often to look
_WAIT_SECONDS = 1.0


@dataclass(slots=True)
class _Job:
    index: int
    task: Any
    body: bytes
    submissions: int = 0


class RayMap(Generic[Task, Result]):
    def __init__(
        self,
        function: bytes,
        tasks: Iterable[Task],
        *,
        ordered: bool,
        workers: int | None,
        tries: int,
    ) -> None:
        self._tries = tries  # by Ray, when a worker or a node dies under a task
        self._ray = import_ray()
        self._function = function
        self._name = uuid.uuid4().hex
        self._tasks = tasks
        self._ordered = ordered
        self._workers = workers
        self._flying: dict[Any, _Job] = {}
        self._window = 0
        self._window_known = -math.inf

    def run(self) -> Generator[Outcome[Task, Result], None, None]:
        function = self._ray.put(self._function)
        remote = self._ray.remote(make_runner(heldout.__version__)).options(
            num_cpus=1, max_retries=self._tries - 1, name="heldout"
        )
        queue = TaskQueue[Task, Result](
            self._tasks, ordered=self._ordered, ahead=2 * self._room() + 2
        )

        def submit(job: _Job) -> None:
            job.submissions += 1
            self._flying[remote.remote(self._name, function, job.body)] = job

        try:
            while True:
                while len(self._flying) < self._room() and (drawn := queue.draw()) is not None:
                    try:
                        submit(_Job(*drawn, self._ray.cloudpickle.dumps(drawn[1])))
                    except (TypeError, AttributeError, pickle.PicklingError) as error:
                        text, where = describe_error(error)
                        yield from queue.release(Outcome(*drawn, error=text, traceback=where))
                if not self._flying:
                    return
                ready, _ = self._ray.wait(list(self._flying), timeout=_WAIT_SECONDS)
                for reference in ready:
                    job = self._flying.pop(reference)
                    outcome = self._fetch(reference, job)
                    if outcome is None:
                        submit(job)
                    else:
                        yield from queue.release(outcome)
        finally:
            self._cancel()

    def _room(self) -> int:
        """How many tasks may be in flight, for the cluster as it is now."""
        if time.monotonic() - self._window_known > _RESOURCES_SECONDS:
            cores = math.ceil(self._ray.cluster_resources().get("CPU", 0))
            if self._workers is not None:
                cores = min(cores, self._workers)
            # A cluster may have no core yet and start nodes only once tasks wait for them.
            self._window = _PER_CORE * max(1, cores)
            self._window_known = time.monotonic()
        return self._window

    def _fetch(self, reference: Any, job: _Job) -> Outcome[Task, Result] | None:
        """The outcome of a job; None when it was lost with a node and should be sent again."""
        errors = self._ray.exceptions
        try:
            kind, content = self._ray.get(reference)
            if kind not in (ERROR, BROKEN, MISSING):
                return Outcome(job.index, job.task, value=pickle.loads(content))
        except errors.WorkerCrashedError:
            text = f"the worker died {self._tries} times while running this task"
            return Outcome(job.index, job.task, error=text)
        except errors.RayTaskError as error:
            text, where = describe_error(error)
            return Outcome(job.index, job.task, error=text, traceback=where)
        except errors.RayError as error:
            if job.submissions < _SUBMISSIONS:
                return None
            return Outcome(job.index, job.task, error=describe_error(error)[0])
        except Exception as error:  # a value may pickle and yet not come back
            text, where = describe_error(error)
            return Outcome(job.index, job.task, error=text, traceback=where)
        return self._failure(job, (kind, content))

    def _failure(self, job: _Job, reply: Reply) -> Outcome[Task, Result]:
        kind, (first, second) = reply
        if kind == MISSING:
            raise PrerequisiteError(
                f"the Ray node {first} has {second}, this program has heldout "
                f"{heldout.__version__}: install the same version on every node, for example "
                f"pip install 'heldout[ray]=={heldout.__version__}'"
            )
        if kind == BROKEN:
            raise InputError(
                f"the function cannot be loaded on a Ray worker ({first}); the module that "
                f"defines it has to be installed on every node"
            )
        return Outcome(job.index, job.task, error=first, traceback=second)

    def _cancel(self) -> None:
        for reference in self._flying:
            # The cluster may be what failed; there is then nothing left to cancel.
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._flying.clear()
