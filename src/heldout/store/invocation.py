"""How heldout was called: what was typed, or the function that a script or notebook called."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

PYTHON = "python"
_LONGEST = 300  # characters of one argument


def python_command(verb: str, *inputs: str, **settings: Any) -> list[str]:
    """A call of ``heldout.VERB`` as a command for a shell; ``inputs`` are Python as it is written."""
    named = [f"{name}={value!r}" for name, value in settings.items()]
    return [PYTHON, "-c", f"import heldout; heldout.{verb}({', '.join([*inputs, *named])})"]


def invocation() -> list[str]:
    """How a run was made, if the caller named no command.

    What was typed; in Python the outermost call of heldout, as ``["python", "heldout.report(…)"]``. It is for
    reading: arguments that cannot be written down are left out, unlike in ``python_command``.
    """
    outermost: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == "heldout.cli" or module.startswith(("heldout.cli.", "heldout.__main__")):
            return ["heldout", *sys.argv[1:]]
        if module == "heldout" or module.startswith("heldout."):
            outermost = frame
        frame = frame.f_back
    return [PYTHON, "heldout" if outermost is None else _call(outermost)]


def _call(frame: FrameType) -> str:
    code, values = frame.f_code, frame.f_locals
    if code.co_name == "__call__" and "self" in values:  # a room that is called like its verb
        named, arguments = values.get("values", {}), values.get("args", ())
        return _written(str(getattr(values["self"], "__name__", "heldout")), arguments, named)
    names = code.co_varnames[: code.co_argcount]
    only_named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    keywords = {name: values.get(name) for name in only_named}
    if code.co_flags & 0x08:  # **values
        place = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04)
        keywords |= values.get(code.co_varnames[place], {})
    arguments = [values.get(name) for name in names if name not in ("self", "cls")]
    return _written(f"heldout.{code.co_qualname}", arguments, keywords)


def _written(function: str, arguments: Any, named: Any) -> str:
    """With the arguments that can be written down; ``…`` replaces the others."""
    parts = [text if (text := _text(value)) else "…" for value in arguments if value is not None]
    parts += [f"{name}={_text(value) or '…'}" for name, value in named.items() if value]
    return f"{function}({', '.join(parts)})"


def _text(value: Any) -> str:
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, bool | int | float | str):
        return repr(value)[:_LONGEST]
    if isinstance(value, list | tuple) and all(_text(part) for part in value):
        return f"[{', '.join(map(_text, value))}]"[:_LONGEST]
    path = getattr(value, "path", None) or getattr(value, "source", None)
    return repr(str(path)) if isinstance(path, str | Path) else ""
