"""What runs inside a Ray worker. It travels by value, so that it can report what a node lacks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

from heldout.engine.engine import THREAD_VARIABLES, describe_error
from heldout.remote import VARIABLE

# Kinds of replies: a pickle of the value, a text and where it was raised (BROKEN when the function
# itself cannot be loaded), or the node and what it has instead of this version of heldout.
VALUE, ERROR, BROKEN, MISSING = "value", "error", "broken", "missing"

Reply = tuple[str, Any]

# The function of the map this process works for. A function may carry a whole benchmark, so it is
# loaded once per process and not once per task.
_loaded: dict[str, Callable[[Any], Any]] = {}


def make_runner(version: str) -> Callable[[str, bytes, bytes], Reply]:
    """A function that Ray sends whole, because it is defined inside another one.

    A function of a module travels as the module's name; a node without heldout, or with another
    version of it, could then only fail with an import error from Ray.
    """

    variables = THREAD_VARIABLES
    remote = os.environ.get(VARIABLE, "")

    def run(name: str, function: bytes, task: bytes) -> Reply:
        import os
        import platform

        # A task has one core. Ray sets this for OpenMP; other libraries would start threads for all of
        # the node's cores in every worker. They read this when they are imported, below.
        for variable in variables:
            os.environ.setdefault(variable, "1")
        if remote:  # how to reach files elsewhere
            os.environ["HELDOUT_REMOTE"] = remote

        try:
            import heldout

            node_version = heldout.__version__
        except ImportError:
            node_version = None
        if node_version != version:
            return "missing", (
                platform.node(),
                f"heldout {node_version}" if node_version else "no heldout",
            )

        from heldout.engine._ray_task import run_task

        return run_task(name, function, task)

    return run


def run_task(name: str, function: bytes, task: bytes) -> Reply:

    if name not in _loaded:
        _loaded.clear()
        try:
            _loaded[name] = pickle.loads(function)
        except Exception as error:
            return BROKEN, describe_error(error)
    try:
        value = _loaded[name](pickle.loads(task))
        return VALUE, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:
        return ERROR, describe_error(error)
