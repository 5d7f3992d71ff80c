"""The commands that made what a run folder holds now: the last of each stage, in their order."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from heldout.detect import texts_missed
from heldout.errors import percent
from heldout.report._statuses import TERMS, status_pill
from heldout.store import PYTHON

#: Scores and answers of one model, or of other variants, do not replace another's: these options distinguish
#: them.
_APART = ("model", "endpoint", "recorded", "as", "variants", "twins")
_MODEL_CALLS = ("score", "ask")
_CALL = re.compile(r"\bheldout\.(\w+)\(")
_PERCENT = re.compile(r"(?<=\d) %")
_FLAGS = ("options", "order-joint", "order-neighbour")  # tables of their own


def commands_shown(commands: Sequence[Sequence[str]]) -> list[str]:
    """Commands as they are typed, calls from Python as they are written.

    An earlier overlap with other corpora, for example, made nothing of what is shown.
    """
    last = {_stage(command): place for place, command in enumerate(commands)}
    return [_written(commands[place]) for place in sorted(last.values())]


def _written(command: Sequence[str]) -> str:
    written = f"Python: {command[1]}" if _is_python(command) else shlex.join(command)
    return without_home(written)


def manifest_shown(manifest: Mapping[str, Any]) -> str:
    """The manifest without the folders in which commands were typed: they say nothing about the result."""
    record = {name: value for name, value in manifest.items() if name != "directories"}
    return json.dumps(record, indent=1, ensure_ascii=False)


def _is_python(command: Sequence[str]) -> bool:
    return len(command) == 2 and command[0] == PYTHON


def _stage(command: Sequence[str]) -> tuple[str, ...]:
    if command[0] == PYTHON and (call := _CALL.search(command[-1])):
        return (call[1], *([command[-1]] if call[1] in _MODEL_CALLS else []))
    verb = next((word for word in command[1:] if not word.startswith("-")), "")
    apart = [f"{name} {_value(command, name)}" for name in _APART]
    return (verb, *apart, *(name for name in _FLAGS if f"--{name}" in command))


def _value(command: Sequence[str], name: str) -> str:
    values, option = [], f"--{name}"
    for place, word in enumerate(command):
        if word == option:
            values += list(command[place + 1 : place + 2])
        elif word.startswith(f"{option}="):
            values.append(word.partition("=")[2])
    return " ".join(values)


# The environment of templates: what is escaped, which scripts a page may run, how numbers are written.


# Untrusted text on a page: characters that a browser would obey or hide are shown as symbols.


# Marks that turn the direction of everything after them, and characters of no width.
_HIDDEN = (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
_SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"}
_SHOWN |= dict.fromkeys((127, *range(128, 160)), "�")
_SHOWN |= {code: f"[U+{code:04X}]" for code in _HIDDEN}


def visible(value: Any) -> Any:
    """Control and bidirectional marks as symbols; our own markup stays."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return value.translate(_SHOWN)
    return value


def without_home(text: str) -> str:
    """Paths below the home folder as ``~/…``, which shells understand; after "=", where some do not, ``$HOME/…``.

    A page is sent to others: the name of an account does not belong on it. A path in single quotes stays as it
    is, because no shell looks into them.
    """
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - asked for every value of a page
    if not home or f"{home}/" not in text:
        return text
    before = rf"(?<![\w.'/~-]){re.escape(home)}(?=/)"
    return re.sub(
        before, lambda place: "$HOME" if text[: place.start()].endswith("=") else "~", text
    )


def _on_page(value: Any) -> Any:
    """For ``finalize`` of a template: as ``visible``, without the home folder, and the sign of a percentage stays
    beside its number."""
    shown = visible(value)
    if isinstance(shown, str) and not isinstance(shown, Markup):
        shown = without_home(shown)
    if isinstance(shown, str) and " %" in shown and not isinstance(shown, Markup):
        return _PERCENT.sub("\N{NO-BREAK SPACE}%", shown)
    return shown


@lru_cache(maxsize=1)
def templates() -> Environment:
    # Everything in a corpus is untrusted text: autoescape has no exceptions here.
    environment = Environment(
        loader=PackageLoader("heldout.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_on_page,
    )
    environment.globals.update(
        terms=TERMS, interval_words=interval_words, texts_missed=texts_missed
    )
    environment.filters.update(
        percent=percent,
        count=lambda value: f"{value:,}",
        slug=slug,
        anchor=anchor,
        place=file_place,
        status=status_pill,
    )
    return environment


_INTERVALS = {
    "clopper-pearson": "exact binomial (Clopper–Pearson)",
    "clopper-pearson over clusters": "exact binomial over the groups",
    "clopper-pearson over effective clusters": "exact binomial over the groups, weighted by their size",
    "korn-graubard": "for grouped items (Korn–Graubard)",
}


def interval_words(method: str) -> str:
    return _INTERVALS.get(method, method)


def script(name: str) -> dict[str, Any]:
    """One of heldout's scripts and the digest that the page's policy allows: no other script runs."""
    text = resources.files("heldout.report").joinpath("templates", name).read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"text": Markup(text), "policy": f"'sha256-{digest}'"}


def file_place(source: str) -> str:
    """Where a dataset was read, for a header: of an absolute path its last folder and its name. The manifest has
    all of it."""
    location, mark, selection = source.partition("#")
    path = PurePath(location)
    short = "/".join(path.parts[-2:]) if path.is_absolute() and len(path.parts) > 3 else location
    return f"{short}{mark}{selection}"


def slug(words: str) -> str:
    """A status as a CSS class."""
    return words.replace(" ", "-")


def anchor(identifier: str) -> str:
    """A claim's id as the name of a place on the page; ids that only differ in odd signs stay apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", identifier)
    if plain != identifier.replace("/", "-"):
        plain += "-" + hashlib.sha256(identifier.encode()).hexdigest()[:6]
    return f"claim-{plain}"
