"""Scratch: memory that is written again and again, because fresh pages cost more than arithmetic."""

from __future__ import annotations

import functools
import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# The most that glibc learns to keep, less what it adds to a piece itself.
_KEPT = (32 << 20) - (1 << 16)


class Scratch(threading.local):
    """One piece of memory per name and thread, as large as the largest that was asked for.

    What ``take`` gave is overwritten by whoever takes the same name next. A copy of a scratch, in
    another process too, is empty.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, NDArray[np.uint8]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._pieces or self._pieces[name].size < size:
            self._pieces[name] = np.empty(size, np.uint8)
        return self._pieces[name][:size].view(dtype).reshape(shape)

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()


@functools.cache
def keep_freed_memory() -> None:
    """What is freed stays with this process for the next picture, a few tens of megabytes at most.

    glibc gives large pieces back to the system at once, and the pages of the next one are cleared and
    mapped anew. From a piece that is freed it learns to keep all up to its size. Other C libraries
    take no notice.
    """
    np.empty(_KEPT, np.uint8)
