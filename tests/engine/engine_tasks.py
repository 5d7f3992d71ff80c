"""Functions that worker processes import by name, as they import the package's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.engine import underway


def square(number: int) -> int:
    return number * number


def fail_on_odd(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


def slow_first(number: int) -> int:
    time.sleep(0.5 if number == 0 else 0.0)
    return number


def double_bytes(block: bytes) -> bytes:
    return block + block


def sleep_long(_: int) -> None:
    time.sleep(600)


def pid(_: int) -> int:
    return os.getpid()


def threads(_: int) -> dict[str, int]:
    """Threads that each library would use here, and those of this process once each has worked."""
    import cv2
    import numpy as np
    import polars as pl
    import psutil
    import pyarrow as pa
    import torch

    from heldout.engine import usable_cores

    image = np.random.default_rng(0).integers(0, 255, (1500, 1500), np.uint8)
    cv2.GaussianBlur(image, (31, 31), 5)
    cv2.SIFT_create().detect(image[:300, :300], None)
    pl.DataFrame({"a": range(10_000)}).sort("a", descending=True)
    np.ones((600, 600)) @ np.ones((600, 600))
    torch.ones(600, 600) @ torch.ones(600, 600)
    return {
        "opencv": cv2.getNumThreads(),
        "polars": pl.thread_pool_size(),
        "torch": torch.get_num_threads(),
        "arrow": pa.cpu_count(),
        "heldout": usable_cores(),
        "running": psutil.Process().num_threads(),
    }


def unpicklable_value(_: int) -> Any:
    return lambda: None


def leave(_: int) -> None:
    raise SystemExit(3)


class BadMessage(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("no message for you")


def raise_bad_message(_: int) -> None:
    raise BadMessage


def die(task: tuple[str, int]) -> int:
    """How a worker ends: 'exit', 'kill', 'segfault', or not at all."""
    how, number = task
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    return number


def die_once(task: tuple[str, int]) -> int:
    """Ends its worker the first time it runs, as a worker hit by its neighbours' memory would."""
    marker, number = task
    if marker and not Path(marker).exists():
        Path(marker).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def interrupt_self(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    return number


def talk(number: int) -> int:
    print("a library says something", flush=True)
    return number


def note_node(task: tuple[str, int]) -> bytes:
    """Writes down on which node it runs, takes a moment, and returns more than a message holds,
    so that the value stays on that node until somebody fetches it."""
    import ray

    folder, number = task
    node = ray.get_runtime_context().get_node_id()
    (Path(folder) / f"{number}-{node}").write_text("")
    time.sleep(0.1)
    return plain_block(number)


def plain_block(number: int) -> bytes:
    return bytes([number]) * 300_000


def sleep_unless_first(number: int) -> int:
    time.sleep(600 if number else 0)
    return number


def report_and_sleep(task: tuple[str, int]) -> None:
    folder, _ = task
    (Path(folder) / str(os.getpid())).write_text("")
    time.sleep(600)


def hungry(task: tuple[str, int]) -> int:
    """Task 0 is killed whenever a neighbour runs, as by a kernel that is short of memory."""
    folder, number = task
    if number == 0:
        for _ in range(5):
            if list(Path(folder).glob("running-*")):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.05)
        return 0
    mark = Path(folder) / f"running-{number}"
    mark.write_text("")
    time.sleep(0.6)  # longer than two workers need to start and die
    mark.unlink()
    return number


def ray_node(_: int) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def meet(task: tuple[str, str, str]) -> str | None:
    """Writes down that it has begun, and ends once the other one has: neither ends if one waits for the other."""
    folder, own, other = task
    (Path(folder) / own).write_text("")
    for _ in range(3000):
        if (Path(folder) / other).exists():
            return visible_gpus(0)
        time.sleep(0.01)
    raise TimeoutError(f"{other} did not begin while {own} ran")


def visible_gpus(_: int) -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def long_shard(items: int) -> int:
    """Counts its items as it goes; says so more than once."""
    return sum(1 for _ in underway(iter_slowly(items)))


def iter_slowly(items: int) -> Iterator[int]:
    for number in range(items):
        time.sleep(0.03)
        yield number
