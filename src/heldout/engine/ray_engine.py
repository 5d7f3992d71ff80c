"""RayEngine: tasks on a Ray cluster, the user's or one started here for this run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Self

from heldout.engine.engine import TRIES, Outcome, Result, Task, until_exhausted
from heldout.engine.ray_connect import connect, import_ray
from heldout.engine.ray_map import RayMap
from heldout.errors import InputError


class RayEngine:
    """``address`` is host:port, ``ray://host:port`` or ``auto``; without one (and without
    RAY_ADDRESS) a cluster with ``workers`` cores starts on this machine and ends with the engine.

    A cluster that was already there is left as it was found.
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
            raise InputError(f"--workers is {workers}; expected 1 or more")
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
    ) -> Generator[Outcome[Task, Result], None, None]:
        if self._closed:
            raise RuntimeError("this engine is closed")
        body = self._ray.cloudpickle.dumps(function)
        chosen = RayMap[Task, Result](
            body, tasks, ordered=ordered, workers=self.workers, tries=tries
        )
        return until_exhausted(chosen.run())

    def close(self) -> None:
        if self._ours and not self._closed:
            self._ray.shutdown()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
