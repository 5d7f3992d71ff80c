"""Packages whose names load on first use, so that a command pays only for what it runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package in which an exported function may have the name of the module that holds it.

    Python binds a submodule to its package when it is loaded; where the package exports that name, the
    binding would hide the exported object.

    A package that Python names like a verb can be called: ``heldout.synth(...)`` makes items. The verb also
    writes a page, which needs rooms above the package, so the call goes through ``heldout``.
    """

    _exports: frozenset[str] = frozenset()
    _verb: str | None = None

    def __call__(self, *args: Any, **values: Any) -> Any:
        if self._verb is None:
            raise TypeError(f"the package '{self.__name__}' cannot be called")
        return self._function()(*args, **values)

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self._exports):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """What is exported, and not the modules that happen to be loaded."""
        own = {name for name in super().__dir__() if name.startswith("__")}
        return sorted(own | self._exports)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """Of a package that can be called: its verb's documentation with the parameters, then its own."""
        own: str | None = self.__dict__.get("__doc__")
        return own if self._verb is None else _verb_documentation(self, own or "")

    def _function(self) -> Callable[..., Any]:
        """What a call of the package calls."""
        function: Callable[..., Any] = getattr(importlib.import_module("heldout"), self._verb or "")
        return function


def _verb_documentation(package: LazyPackage, own: str) -> str:
    function = package._function()
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n")
    signature = inspect.signature(function)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    call = f"{package.__name__}{inspect.Signature(bare)}"
    written = textwrap.fill(call, 96, subsequent_indent="    ", break_on_hyphens=False)
    return f"{summary}\n\n{written}\n{rest}\n\nThe package of this name: {own}"


def load_on_first_use(package: str, file: str, verb: str | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports its names under ``if TYPE_CHECKING`` only.

    The names are listed once, in the form that type checkers and editors read.

    Args:
        package: The package's ``__name__``.
        file: The package's ``__file__``.
        verb: Name in ``heldout`` of the function that a call of the package calls.
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
    module._verb = verb  # type: ignore[attr-defined]

    def load(name: str) -> Any:
        if name == "__signature__" and verb is not None:  # inspect.signature of the package
            return inspect.signature(module._function())
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home, original = homes[name]
        value = getattr(importlib.import_module(home), original)
        setattr(module, name, value)
        return value

    return load
