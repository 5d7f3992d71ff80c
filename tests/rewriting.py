"""On a fresh checkout nothing is compiled. Each worker compiles its share of the libraries, and rewrites the
assertions of its share of the test files and finds its share of the constants that Hypothesis tries: all of it
takes one longer than importing what it tests."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

#: Imported by nearly every worker while it collects the tests. Not ray, which reads the environment when imported.
LIBRARIES = (
    ("torchvision",),
    ("scipy.stats", "pandas", "polars", "moto", "pydicom", "hypothesis", "playwright.sync_api"),
    ("transformers", "onnx", "fastapi", "matplotlib", "heldout.cli"),
)


def compile_libraries(config: pytest.Config) -> None:
    """Import one share of them first: Python keeps what it compiled, and the other workers find it there."""
    number = int(config.workerinput["workerid"].removeprefix("gw"))  # type: ignore[attr-defined]
    for name in LIBRARIES[number] if number < len(LIBRARIES) else ():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def rewrite_tests(config: pytest.Config, folder: Path) -> None:
    """Leave in the cache what pytest would make of every test file when it imports it. Workers begin at
    different places and pass over what is there, so that each rewrites its share."""
    try:  # pytest has no public name for this; without it every worker rewrites everything
        from _pytest.assertion import rewrite
        from _pytest.assertion.rewrite import assertstate_key

        state = config.stash[assertstate_key]
        files = sorted([*folder.rglob("test_*.py"), *folder.rglob("conftest.py")])
        for file in _own_first(config, files):
            cached = rewrite.get_cache_dir(file) / (file.name[:-3] + rewrite.PYC_TAIL)
            if rewrite._read_pyc(file, cached) is None:
                rewrite.try_makedirs(cached.parent)
                stamp, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(state, code, stamp, cached)
    except (ImportError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        print(f"test files are rewritten by every worker: {error!r}", file=sys.stderr)


def collect_constants(config: pytest.Config, folder: Path) -> None:
    """Leave in Hypothesis' cache the constants that it looks for in every module before the first test."""
    try:  # Hypothesis has no public name for this; without it every worker reads everything
        from hypothesis.configuration import storage_directory
        from hypothesis.internal.constants_ast import constants_from_module

        cache = storage_directory("constants").path
        for file in _own_first(config, sorted(folder.rglob("*.py"))):
            if not (cache / hashlib.sha1(file.read_bytes()).hexdigest()[:16]).exists():
                module = ModuleType(file.stem)
                module.__file__ = str(file)
                constants_from_module(module)
    except (ImportError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        print(f"every worker looks for constants: {error!r}", file=sys.stderr)


def _own_first(config: pytest.Config, files: list[Path]) -> list[Path]:
    """All of them, beginning with this worker's share."""
    workers = int(config.workerinput["workercount"])  # type: ignore[attr-defined]
    number = int(config.workerinput["workerid"].removeprefix("gw"))  # type: ignore[attr-defined]
    first = len(files) * number // workers
    return [*files[first:], *files[:first]]
