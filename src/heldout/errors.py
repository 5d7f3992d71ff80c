"""Errors a user can act on. Every message says what was expected and what to do."""

from __future__ import annotations


class HeldoutError(Exception):
    """Base of the errors that are printed as a sentence, never as a traceback."""

    exit_code = 2


class InputError(HeldoutError):
    """The user's file, row or argument is not what was expected (exit code 2)."""


class PrerequisiteError(HeldoutError):
    """Something that has to be installed is missing (exit code 3)."""

    exit_code = 3


def require(module: str, extra: str, why: str) -> None:
    """Raise a PrerequisiteError with the exact install command unless ``module`` can be imported."""
    import importlib.util
    import sys

    # A module that another thread is importing has no spec yet, and find_spec would raise.
    if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
        raise PrerequisiteError(
            f"{why} needs the package '{module}', which is not installed. "
            f"Install it with: pip install 'heldout[{extra}]'"
        )


def counted(count: int, one: str, many: str) -> str:
    """ "1 item stands" or "2 items stand": a sentence must not stumble over its number."""
    return f"{count:,} {one if count == 1 else many}"
