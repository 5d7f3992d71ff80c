"""Results of slow functions, kept from one judgement of a pair to the next, and a clock as if none were.

A pair is judged again with one group of rules off, and most of the work is the same. What is remembered takes no time
and is counted with the time that it took: ``clock`` says how long everything would have taken without a memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image


class Memory:
    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, float]] = {}
        self._spared = 0.0  # seconds

    def clock(self) -> float:
        return time.process_time() + self._spared

    def forget(self) -> None:
        self._known.clear()

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with a memory: it has to depend on its arguments alone, and nobody may write on its results."""

        @wraps(function)
        def remembered(*args: Any, **words: Any) -> Any:
            start = time.process_time()
            key = function.__qualname__, _key(args), _key(tuple(sorted(words.items())))
            known = self._known.get(key)
            if known is not None:
                self._spared += known[1] - (time.process_time() - start)
                return known[0]
            self._spared -= time.process_time() - start
            start = self.clock()
            result = function(*args, **words)
            self._known[key] = result, self.clock() - start
            return result

        return remembered


def _key(value: Any) -> Any:
    """Equal for arguments of equal content."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, hash(value.tobytes())
    if isinstance(value, Image.Image):
        return value.size, value.mode, hash(value.tobytes())
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, tuple | list):
        return tuple(_key(each) for each in value)
    if hasattr(value, "sketches"):  # all else that is known of a picture follows from its greys
        return value.size, _key(value.grey)
    if is_dataclass(value):
        return type(value), tuple(_key(getattr(value, each.name)) for each in fields(value))
    return value
