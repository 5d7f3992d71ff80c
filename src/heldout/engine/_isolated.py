"""The one way in which heldout starts Python: its processes find modules where this one does."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from heldout.errors import InputError

_SAFE_PATH = "PYTHONSAFEPATH"


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Python that is started in this block has no folder on its path because somebody stands in it.

    ``python -c`` puts that folder first, and a ``re.py`` beside the data would run. What is installed or on
    PYTHONPATH is found as before.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise InputError(
            "this Python was started with -E, so its worker processes would run modules that lie in the working "
            "directory; start it with -P or -I as well, or use one worker"
        )
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH, None)
        else:
            os.environ[_SAFE_PATH] = before


def stands_on_path() -> bool:
    """Whether this process itself finds modules in the working directory, as a notebook does."""
    return bool({"", str(Path.cwd())} & set(sys.path))
