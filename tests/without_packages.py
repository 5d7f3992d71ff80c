"""``python without_packages.py torch,transformers CODE …``: run CODE as if they were not installed."""

from __future__ import annotations

import sys
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


if __name__ == "__main__":
    names = frozenset(sys.argv[1].split(","))
    sys.meta_path[:] = [Without(finder, names) for finder in sys.meta_path]
    code, sys.argv[:] = sys.argv[2], ["heldout", *sys.argv[3:]]
    try:
        exec(code)
    finally:
        assert not names & set(sys.modules)
