"""Tables that depend on the length of a side: kept for ordinary lengths, made anew for very long ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

LONGEST = 4096  # beyond it a table is large, and little beside the picture it is for
KEPT = 1024  # of lengths; at the longest some 100 kB each

_Rest = ParamSpec("_Rest")
_Table = TypeVar("_Table")


def remembered(
    make: Callable[Concatenate[int, _Rest], _Table],
) -> Callable[Concatenate[int, _Rest], _Table]:
    """``make`` of a length; what is kept does not grow with the lengths a corpus has."""
    kept = functools.lru_cache(maxsize=KEPT)(make)

    @functools.wraps(make)
    def table(length: int, /, *rest: _Rest.args, **named: _Rest.kwargs) -> _Table:
        if length > LONGEST:
            return make(length, *rest, **named)
        return kept(length, *rest, **named)  # type: ignore[arg-type]  # numbers, all of them

    return table
