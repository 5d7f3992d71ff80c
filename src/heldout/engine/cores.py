"""How many cores this process may use, and how many threads each worker should start."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

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
    ``HELDOUT_CORES``, by which a worker knows its share and a user sets one."""
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
