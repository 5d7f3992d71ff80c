"""Parts of heldout that give way to others in this process: what switching a group of rules off is made of."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Patch:
    """``name`` of ``module``, and what ``instead`` makes of it, in every module that imported it."""

    module: str
    name: str
    instead: Callable[[Any], Any]

    @property
    def now(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)


def replace(name: str, old: object, new: object) -> list[ModuleType]:
    """``new`` for ``old`` in every loaded module of heldout that has it under this name."""
    places = [
        module
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] == "heldout" and vars(module).get(name) is old
    ]
    for place in places:
        vars(place)[name] = new
    return places


def apply(patches: Iterable[Patch]) -> None:
    for patch in patches:
        now = patch.now
        replace(patch.name, now, patch.instead(now))


@contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[None]:
    """For a while."""
    done: list[tuple[str, object, list[ModuleType]]] = []
    for patch in patches:
        now = patch.now
        done.append((patch.name, now, replace(patch.name, now, patch.instead(now))))
    try:
        yield
    finally:
        for name, before, places in reversed(done):
            for place in places:
                vars(place)[name] = before
