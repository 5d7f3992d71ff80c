"""How far tasks are that have not ended: counted where they run, passed on to where progress is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Listener = Callable[[str, int], None]
Entry = TypeVar("Entry")

_listeners: list[Listener] = []  # the innermost one is last


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this block, ``listener`` receives what tasks count."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def moved(name: str, count: int = 1) -> None:
    """A task has done so much of its work: ``items``, ``pairs``. Costs little; call it for every item."""
    if _listeners:
        _listeners[-1](name, count)


def underway(entries: Iterable[Entry], name: str = "items") -> Iterator[Entry]:
    """Pass entries on, each counted once the next one is asked for."""
    for entry in entries:
        yield entry
        moved(name)
