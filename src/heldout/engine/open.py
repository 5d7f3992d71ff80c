"""open_engine: the engine a user names on the command line or in an audit file."""

from __future__ import annotations

from heldout.engine.engine import Engine
from heldout.engine.local import LocalEngine
from heldout.engine.ray_engine import RayEngine
from heldout.errors import InputError


def open_engine(text: str = "local", workers: int | None = None) -> Engine:
    """Open an engine: where work runs. Use it as a context manager.

    Args:
        text: ``local``, ``ray`` (a cluster for this run), ``ray:auto``, ``ray:host:port``, or
            ``ray://host:port``.
        workers: Processes; default: one per core.
    """
    if text == "local":
        return LocalEngine(workers)
    if text == "ray":
        return RayEngine(workers=workers)
    if text.startswith("ray://"):
        return RayEngine(text, workers=workers)
    if text.startswith("ray:") and len(text) > len("ray:"):
        return RayEngine(text.removeprefix("ray:"), workers=workers)
    raise InputError(
        f"engine: got '{text}'; expected local (this machine's cores), ray (a Ray cluster started "
        f"for this run), ray:auto (the cluster this machine belongs to), ray:host:port, or "
        f"ray://host:port (a Ray client server)"
    )
