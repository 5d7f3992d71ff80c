"""Packages that load on first use: every name is there, and a command does not pay for the whole house."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import heldout

LAZY = [
    "audit",
    "cure",
    "evaluate",
    "synth",
    "train",
    "detect",
    "lab",
    "model",
    "overlap",
    "report",
    "review",
    "scenes",
    "twin",
    "verdict",
]


@pytest.mark.parametrize("room", LAZY)
def test_every_exported_name_is_what_it_says(room: str) -> None:
    package = importlib.import_module(f"heldout.{room}")
    for name in package.__all__:
        assert not isinstance(getattr(package, name), ModuleType), name
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = package.nothing_of_this_name


def test_a_submodule_does_not_hide_the_function_of_its_name() -> None:
    importlib.import_module("heldout.detect.image_overlap")
    from heldout.detect import image_overlap

    assert callable(image_overlap)


def test_names_complete_before_they_are_loaded() -> None:
    assert set(heldout.__all__) <= set(dir(heldout))


@pytest.mark.parametrize("room", LAZY)
def test_completion_lists_what_is_exported_and_no_modules(room: str) -> None:
    package = importlib.import_module(f"heldout.{room}")
    assert {name for name in dir(package) if not name.startswith("__")} == set(package.__all__)


def test_asking_loads_neither_reports_nor_slow_statistics() -> None:
    script = (
        "import sys, heldout.cli.ask; "
        "print(*[name for name in ('scipy.stats', 'heldout.report', 'heldout.lab') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
