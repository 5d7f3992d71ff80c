"""How many cores this process may use, and how many threads each worker should start."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)


def usable_cores() -> int:
    """Cores this process may run on: its affinity, and its container's share of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with contextlib.suppress(OSError, ValueError):
        quota, period = _CGROUP_LIMIT.read_text().split()
        if quota != "max":
            cores = min(cores or 1, math.ceil(int(quota) / int(period)))
    return max(1, cores or 1)


@contextlib.contextmanager
def shared_threads(workers: int) -> Iterator[None]:
    """Processes started in this block share the cores, instead of each starting threads for all.

    Numerical libraries read these variables once, when they are imported, so the child must find
    them in its environment from the start. What the user has set is left alone.
    """
    threads = str(max(1, usable_cores() // workers))
    added = [name for name in _THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(added, threads))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
