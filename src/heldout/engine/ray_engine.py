"""RayEngine: tasks on a Ray cluster, the user's or one started here for this run."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import pickle
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self
from urllib.parse import urlsplit

import heldout
from heldout.engine._isolated import isolated, stands_on_path
from heldout.engine._ray_task import BROKEN, ERROR, MISSING, Reply, make_runner
from heldout.engine.engine import (
    TRIES,
    Kind,
    KindTask,
    Outcome,
    Result,
    Task,
    TaskQueue,
    by_kind,
    describe_error,
    run_kind,
    tasks_of_kinds,
    until_exhausted,
)
from heldout.errors import InputError, PrerequisiteError, require

# Joining a Ray cluster, or starting one on this machine, with errors that say what to do.


_CONNECT_SECONDS = 5.0
# A cluster's client server forks a server for every client while its own gRPC threads run, and now and then
# that child fails to start ("Starting Ray client server failed"); the next one works.
_CLIENT_ATTEMPTS = 4
_STORE_BYTES = 500_000_000  # of a cluster we start ourselves: tables and file names, not images


def import_ray() -> Any:
    require("ray", "ray", "the Ray engine")
    # Read when ray is imported: no usage report leaves this machine, and Ray's messages about dying workers do
    # not go to standard output, which log_to_driver=False alone does not prevent.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    # Under `uv run`, Ray would send the folder one stands in to every node, and have it searched for modules.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    return ray


def connect(address: str | None, workers: int | None, object_store_memory: int | None) -> bool:
    """Connect this process to Ray; False when it already was, so it is not ours to disconnect."""
    ray = import_ray()
    if ray.is_initialized():
        _check_same_cluster(ray, address)
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": object_store_memory or _STORE_BYTES,
        }
    elif address != "auto":
        _check_reachable(address)
    if not address.startswith("ray://") and not stands_on_path():
        # To the workers of a client's job Ray does not give the folder that the program stands in.
        options["job_config"] = ray.job_config.JobConfig(_client_job=True)
    for attempt in range(1, _CLIENT_ATTEMPTS + 1):
        try:
            with isolated():
                ray.init(address=address, **options)
            return True
        except (ConnectionError, RuntimeError) as error:
            ray.shutdown()  # half a connection would make the next attempt fail for another reason
            if attempt == _CLIENT_ATTEMPTS or not _died_at_birth(error):
                raise _explain(address, error) from error
            time.sleep(attempt)
    raise AssertionError("unreachable")


def _died_at_birth(error: Exception) -> bool:
    return isinstance(error, ConnectionAbortedError) and (
        "Starting Ray client server failed" in str(error) or "Proxy failed to Connect" in str(error)
    )


def _explain(address: str, error: Exception) -> Exception:
    if "ersion mismatch" in str(error):
        return PrerequisiteError(
            f"the Ray cluster at '{address}' runs other versions than this program: {error}"
        )
    if isinstance(error, ConnectionError):
        return InputError(
            f"no Ray cluster lets this program in at '{address}' ({error}); check that one runs "
            f"there ('ray start --head') and, if it asks for a token, that RAY_AUTH_MODE and "
            f"RAY_AUTH_TOKEN are set here as they are there"
        )
    return error


def _check_same_cluster(ray: Any, address: str | None) -> None:
    if address in (None, "auto", "local") or ray.util.client.ray.is_connected():
        return
    current = ray.get_runtime_context().gcs_address
    if address != current:
        raise InputError(
            f"this process is already connected to Ray at {current}, not at {address}; call "
            f"ray.shutdown() first, or give no address"
        )


def _check_reachable(address: str) -> None:
    """Check the port first: Ray tries for minutes, and may end the process when there is no answer."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme == "ray":
        port = port or 10001
    if not host or not port:
        raise InputError(
            f"'{address}' is not the address of a Ray cluster; expected host:port, "
            f"ray://host:port or auto"
        )
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise InputError(
            f"no Ray cluster answers at '{address}' ({error.strerror or error}); check that it "
            f"runs and that this machine may reach it"
        ) from error


# RayMap: one map over a Ray cluster. Ray places and retries tasks; this submits them and collects results.


_SUBMISSIONS = 3  # retries by heldout, when Ray gave up a task for a reason that is not the task's
_SLIVER = 0.0001  # of a node's own resource: the least that Ray counts
_PER_GPU = 8  # tasks at most: so many kept a large encoder busy
_PER_CORE = 2  # tasks in flight: one runs, one waits on its node
_RESOURCES_SECONDS = 10.0  # clusters grow and shrink; how often to look
_WAIT_SECONDS = 1.0


@dataclass(slots=True)
class _Job:
    index: int
    task: Any
    body: bytes
    submissions: int = 0


class _Stream(Generic[Task, Result]):
    """The tasks of one kind, on their way to the cluster."""

    def __init__(self, queue: TaskQueue[Task, Result], on_gpu: bool) -> None:
        self.queue, self.on_gpu = queue, on_gpu
        self.flying = 0

    @property
    def open(self) -> bool:
        return self.flying > 0 or not self.queue.exhausted


class RayMap(Generic[Task, Result]):
    """``streams``: tasks of one kind each, and whether they run on GPUs."""

    def __init__(
        self,
        function: bytes,
        streams: Sequence[tuple[Iterable[Task], bool]],
        *,
        ordered: bool = False,
        workers: int | None,
        tries: int,
    ) -> None:
        self._tries = tries  # retries by Ray, when a worker or a node dies
        self._ray = import_ray()
        self._function = function
        self._name = uuid.uuid4().hex
        self._workers = workers
        self._near = self._near_data()
        self._flying: dict[Any, tuple[_Stream[Task, Result], _Job]] = {}
        self._cores = self._slots = 1  # tasks at once: on cores, and those of them on GPUs
        self.share = 0.0
        self._known = -math.inf
        self._look()
        ahead = 2 * _PER_CORE * self._cores + 2
        self._streams = [
            _Stream(TaskQueue[Task, Result](tasks, ordered=ordered, ahead=ahead), on_gpu)
            for tasks, on_gpu in streams
        ]

    def run(self) -> Generator[Outcome[Task, Result], None, None]:
        function = self._ray.put(self._function)
        remote = self._ray.remote(make_runner(heldout.__version__))
        options = {"num_cpus": 1, "resources": self._near, "max_retries": self._tries - 1}

        def submit(stream: _Stream[Task, Result], job: _Job) -> None:
            job.submissions += 1
            stream.flying += 1
            gpus = self.share if stream.on_gpu else 0
            placed = remote.options(name="heldout", num_gpus=gpus, **options)
            self._flying[placed.remote(self._name, function, job.body)] = (stream, job)

        try:
            while True:
                for stream, drawn in self._drawn():
                    try:
                        submit(stream, _Job(*drawn, self._ray.cloudpickle.dumps(drawn[1])))
                    except (TypeError, AttributeError, pickle.PicklingError) as error:
                        text, where = describe_error(error)
                        lost: Outcome[Task, Result] = Outcome(*drawn, error=text, traceback=where)
                        yield from stream.queue.release(lost)
                if not self._flying:
                    return
                ready, _ = self._ray.wait(list(self._flying), timeout=_WAIT_SECONDS)
                for reference in ready:
                    stream, job = self._flying.pop(reference)
                    stream.flying -= 1
                    outcome = self._fetch(reference, job)
                    if outcome is None:
                        submit(stream, job)
                    else:
                        yield from stream.queue.release(outcome)
        finally:
            self._cancel()

    def _drawn(self) -> Iterator[tuple[_Stream[Task, Result], tuple[int, Task]]]:
        """Tasks that may be submitted now; streams take turns."""
        self._look()
        waiting = deque(self._streams)
        while waiting:
            stream = waiting.popleft()
            if stream.flying < self._room(stream) and (drawn := stream.queue.draw()) is not None:
                yield stream, drawn
                waiting.append(stream)

    def _room(self, stream: _Stream[Task, Result]) -> int:
        """How many tasks of one kind may be in flight, for the cluster as it is now."""
        running = [other for other in self._streams if other.open]
        if stream.on_gpu and self._slots:
            return _PER_CORE * self._slots
        if self._slots and any(other.on_gpu for other in running):
            # They would take the cores beside the GPUs, too, and GPUs would wait for those.
            return max(1, self._cores - self._slots)
        return max(1, _PER_CORE * self._cores // max(1, len(running)))

    def _look(self) -> None:
        """What the cluster has now: its nodes come and go."""
        if time.monotonic() - self._known <= _RESOURCES_SECONDS:
            return
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        nodes = [has for has in nodes if all(name in has for name in self._near)]
        cores = math.ceil(sum(has.get("CPU", 0) for has in nodes))
        # A cluster may have no core yet and start nodes only once tasks wait for them.
        self._cores = max(1, cores if self._workers is None else min(cores, self._workers))
        # A task's share of a GPU: without one it sees none, and a model would run on its core. A core decodes fewer
        # pictures than a GPU encodes, so as many tasks share a GPU as the nodes with GPUs have cores for each.
        with_gpu = [has for has in nodes if has.get("GPU", 0) >= 1]
        each = min([_PER_GPU, *(int(has.get("CPU", 0) // has["GPU"]) for has in with_gpu)])
        self.share = 1 / max(1, each) if with_gpu else 0.0
        slots = sum(min(has.get("CPU", 0), has["GPU"] * max(1, each)) for has in with_gpu)
        self._slots = min(int(slots), self._cores)
        self._known = time.monotonic()

    def _near_data(self) -> dict[str, float]:
        """Ray does not know which nodes are near a corpus. Whoever does gives them a resource of their own, and
        names it in HELDOUT_RAY_NODES; a sliver of it keeps a task on those nodes and bounds nothing."""
        name = os.environ.get("HELDOUT_RAY_NODES")
        if not name:
            return {}
        if not self._ray.cluster_resources().get(name):
            raise InputError(
                f"HELDOUT_RAY_NODES: no node of the cluster has the resource '{name}'; start those near the "
                f"data with: ray start --resources='{{\"{name}\": 1}}'"
            )
        return {name: _SLIVER}

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


class RayEngine:
    """``address`` is host:port, ``ray://host:port`` or ``auto``; without one (and without
    RAY_ADDRESS) a cluster with ``workers`` cores starts on this machine and ends with the engine.

    A cluster that was already there is left running.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        object_store_memory: int | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers: expected 1 or more, got {workers}")
        self.workers = workers
        self._ray = import_ray()
        self._ours = connect(address, workers, object_store_memory)
        self._closed = False

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        *,
        ordered: bool = False,
        tries: int = TRIES,
        on_gpu: bool = False,
    ) -> Generator[Outcome[Task, Result], None, None]:
        if self._closed:
            raise RuntimeError("this engine is closed")
        body = self._ray.cloudpickle.dumps(function)
        chosen = RayMap[Task, Result](
            body, [(tasks, on_gpu)], ordered=ordered, workers=self.workers, tries=tries
        )
        return until_exhausted(chosen.run())

    def map_kinds(
        self, kinds: Sequence[Kind[Any, Any]], *, tries: int = TRIES
    ) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
        if self._closed:
            raise RuntimeError("this engine is closed")
        look = functools.partial(run_kind, [kind.function for kind in kinds])
        streams = zip(tasks_of_kinds(kinds), (kind.on_gpu for kind in kinds), strict=True)
        chosen = RayMap[KindTask, Any](
            self._ray.cloudpickle.dumps(look), list(streams), workers=self.workers, tries=tries
        )
        return by_kind(until_exhausted(chosen.run()))

    def close(self) -> None:
        if self._ours and not self._closed:
            self._ray.shutdown()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
