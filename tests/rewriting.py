"""Assertions of a test file are rewritten by one worker, not by each: on a fresh checkout that takes a worker
longer than importing all it tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def rewrite_tests(config: pytest.Config, folder: Path) -> None:
    """Leave in the cache what pytest would make of every test file when it imports it. Workers begin at
    different places and pass over what is there, so that each rewrites its share."""
    try:  # pytest has no public name for this; without it every worker rewrites everything
        from _pytest.assertion import rewrite
        from _pytest.assertion.rewrite import assertstate_key

        state = config.stash[assertstate_key]
        files = sorted([*folder.rglob("test_*.py"), *folder.rglob("conftest.py")])
        workers = int(config.workerinput["workercount"])  # type: ignore[attr-defined]
        number = int(config.workerinput["workerid"].removeprefix("gw"))  # type: ignore[attr-defined]
        first = len(files) * number // workers
        for file in (*files[first:], *files[:first]):
            cached = rewrite.get_cache_dir(file) / (file.name[:-3] + rewrite.PYC_TAIL)
            if rewrite._read_pyc(file, cached) is None:
                rewrite.try_makedirs(cached.parent)
                stamp, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(state, code, stamp, cached)
    except (ImportError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        print(f"test files are rewritten by every worker: {error!r}", file=sys.stderr)
