"""The commands that made what a run folder holds now: the last of each stage, in their order."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from heldout.store import PYTHON

#: Scores and answers of one model, or of other variants, do not replace another's: these tell them apart.
_APART = ("--model", "--endpoint", "--recorded", "--as", "--variants", "--twins")
_MODEL_CALLS = ("heldout.score", "heldout.ask")
_FLAGS = ("--options", "--order-joint", "--order-neighbour")  # tables of their own


def commands_shown(commands: Sequence[Sequence[str]]) -> list[str]:
    """Commands as they are typed, calls from Python as they are written.

    An overlap that was given again with other corpora, say, made nothing of what is shown.
    """
    last = {_stage(command): place for place, command in enumerate(commands)}
    return [_written(commands[place]) for place in sorted(last.values())]


def _written(command: Sequence[str]) -> str:
    return f"Python: {command[1]}" if _is_python(command) else shlex.join(command)


def _is_python(command: Sequence[str]) -> bool:
    return len(command) == 2 and command[0] == PYTHON


def _stage(command: Sequence[str]) -> tuple[str, ...]:
    if _is_python(command):
        function = command[1].partition("(")[0]
        apart = [command[1]] if function in _MODEL_CALLS else []
        return (function.removeprefix("heldout."), *apart)
    verb = next((word for word in command[1:] if not word.startswith("-")), "")
    apart = [f"{name} {_value(command, name)}" for name in _APART]
    return (verb, *apart, *(name for name in _FLAGS if name in command))


def _value(command: Sequence[str], name: str) -> str:
    found = []
    for place, word in enumerate(command):
        if word == name:
            found += list(command[place + 1 : place + 2])
        elif word.startswith(f"{name}="):
            found.append(word.partition("=")[2])
    return " ".join(found)
