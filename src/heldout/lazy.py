"""Packages whose names load on first use, so that a command pays only for what it runs."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package in which an exported function may have the name of the module that holds it.

    Python binds a submodule to its package when it is loaded; where the package exports that name, the
    binding would hide what the name stands for.
    """

    _exports: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self._exports):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._exports})


def load_on_first_use(package: str, file: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports its names under ``if TYPE_CHECKING`` only.

    The names stand once, in the form that type checkers and editors read.

    Args:
        package: The package's ``__name__``.
        file: The package's ``__file__``.
    """
    homes = {
        alias.asname or alias.name: (node.module, alias.name)
        for block in ast.parse(Path(file).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    module = sys.modules[package]
    module.__class__ = LazyPackage
    module._exports = frozenset(homes)  # type: ignore[attr-defined]

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home, original = homes[name]
        value = getattr(importlib.import_module(home), original)
        setattr(module, name, value)
        return value

    return load
