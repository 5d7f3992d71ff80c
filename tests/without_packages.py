"""``python without_packages.py torch,transformers CODE …``: run CODE as if they were not installed."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any


class Without:
    """A finder of modules that does not find some of them; whoever only looks for them goes on."""

    def __init__(self, finder: Any, names: frozenset[str]) -> None:
        self._finder = finder
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._names:
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide(names: Collection[str]) -> None:
    """From here on this process does not find them; it has not imported them yet."""
    assert not set(names) & set(sys.modules)
    if names:
        sys.meta_path[:] = [Without(finder, frozenset(names)) for finder in sys.meta_path]


if __name__ == "__main__":
    names = frozenset(sys.argv[1].split(","))
    hide(names)
    code, sys.argv[:] = sys.argv[2], ["heldout", *sys.argv[3:]]
    try:
        exec(code)
    finally:
        assert not names & set(sys.modules)
