"""Errors a user can act on. Every message states what was expected and what to do."""

from __future__ import annotations

import errno
import html
from collections.abc import Iterable, Sequence


class HeldoutError(Exception):
    """Base of the errors that are printed as a sentence, never as a traceback."""

    exit_code = 2


class InputError(HeldoutError):
    """The user's file, row or argument is not what was expected (exit code 2)."""


class PrerequisiteError(HeldoutError):
    """Something that has to be installed is missing (exit code 3)."""

    exit_code = 3


class MachineError(HeldoutError):
    """The machine ran out of disk, memory or open files (exit code 4). Nothing is wrong with the input."""

    exit_code = 4


# Errors that are never the fault of the file that was read or written.
_EXHAUSTED = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file grew beyond the largest size allowed here (ulimit -f)",
    errno.EMFILE: "this process may not open more files (ulimit -n)",
    errno.ENFILE: "the system cannot open more files",
    errno.ENOMEM: "memory ran out",
}
_THREADS = "no more threads or processes can be started (ulimit -u)"
# Libraries in other languages pass on the system's message as text.
_SAID = {
    "No space left on device": _EXHAUSTED[errno.ENOSPC],
    "disk is full": _EXHAUSTED[errno.ENOSPC],
    "Disk quota exceeded": _EXHAUSTED[errno.EDQUOT],
    "File too large": _EXHAUSTED[errno.EFBIG],
    "Too many open files": _EXHAUSTED[errno.EMFILE],
    "Cannot allocate memory": _EXHAUSTED[errno.ENOMEM],
    "cannot allocate memory": _EXHAUSTED[errno.ENOMEM],
    # The loader of shared libraries, under a limit on address space (ulimit -v).
    "failed to map segment": _EXHAUSTED[errno.ENOMEM],
    "can't start new thread": _THREADS,
    "Failed to launch worker thread": _THREADS,
    "requested and": _EXHAUSTED[errno.ENOSPC],  # NumPy: "43 requested and 0 written"
}


def machine_trouble(error: BaseException) -> str | None:
    """Which resource of the machine is used up, if that is what ``error`` says; None for any other error.

    A MemoryError is not among them: one item may ask for more than any machine has.
    """
    if isinstance(error, OSError) and error.errno is not None:
        trouble = _EXHAUSTED.get(error.errno)
        return f"{trouble} (at {error.filename})" if trouble and error.filename else trouble
    # Errors about data often quote the data.
    if isinstance(error, HeldoutError | ValueError | LookupError | SyntaxError):
        return None
    text = str(error)
    if isinstance(error, ImportError):  # packages wrap the loader's message in advice of their own
        text = "\n".join(str(link) for link in (error, error.__cause__, error.__context__) if link)
    return next((trouble for phrase, trouble in _SAID.items() if phrase in text), None)


def blame_the_machine(error: BaseException) -> None:
    """Raise a MachineError if the machine is at fault, not the file; else do nothing."""
    trouble = machine_trouble(error)
    if trouble is not None:
        raise MachineError(trouble) from error


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


def percent(value: float, digits: int = 1) -> str:
    """A share as pages, claims and terminals write it: 81.6 %.

    One that is not quite 0 or 1 is never written as 0 % or 100 %.
    """
    value = round(value, 12)  # 1 - 1e-16 is 1
    shown = f"{value:.{digits}%}"
    if not _as_if_whole(value, shown):
        return shown.replace("%", " %")
    shown, finest = f"{value:.{digits + 2}%}", 10.0 ** -(digits + 2)
    if _as_if_whole(value, shown):
        return f"below {finest:g} %" if value < 0.5 else f"above {100 - finest:g} %"
    return shown.replace("%", " %")


def _as_if_whole(value: float, shown: str) -> bool:
    """Whether a share that is not quite 0 or 1 is shown as if it were."""
    return (value > 0 and float(shown[:-1]) == 0) or (value < 1 and float(shown[:-1]) == 100)


def counted(count: int, text: str, many: str) -> str:
    """ "1 item stands" or "2 items stand": the noun agrees with its number."""
    return f"{count:,} {text if count == 1 else many}"


def nearest_name(word: str, known: Sequence[str]) -> str:
    """What somebody who wrote ``word`` may have meant, and what there is."""
    import difflib

    close = difflib.get_close_matches(word.lower(), known, n=1)
    listed = f"there are {', '.join(known)}" if known else "there are none"
    return f"did you mean '{close[0]}'? ({listed})" if close else listed


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table for notebooks, with a sentence below it; everything is escaped, whole numbers have separators."""

    def cell(value: object) -> str:
        text = f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)
        return f"<td style='text-align:left'>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>" + (f"<p>{html.escape(note)}</p>" if note else "")
