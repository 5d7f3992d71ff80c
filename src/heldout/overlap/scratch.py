"""Scratch: memory that is written again and again, because fresh pages cost more than arithmetic."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


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
