"""Options that several verbs share, and how their text is read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from heldout.errors import InputError

Map = Annotated[
    list[str],
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Name a column yourself; fields are id, image, question, options, answer, cluster. "
        "Several columns: options=A+B+C+D.",
    ),
]
Images = Annotated[
    Path | None, typer.Option("--images", metavar="DIR", help="Folder that holds the images.")
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Read BENCH as this named benchmark."),
]
Reader = Annotated[
    str | None, typer.Option("--reader", metavar="NAME", help="Use this reader; do not look.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
EngineName = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="local, ray, or ray://HOST:PORT.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes to use; default: one per core.")
]


def parse_map(entries: list[str]) -> dict[str, str]:
    mapping = {}
    for entry in entries:
        field, equals, column = entry.partition("=")
        if not equals or not field or not column:
            raise InputError(f"--map {entry}: expected FIELD=COLUMN, for example --map answer=gold")
        mapping[field] = column
    return mapping


def parse_named(text: str) -> tuple[str | None, str]:
    """``name=path`` or ``path``; an existing path is never taken apart."""
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)=(.+)", text)
    if match is None or Path(text).exists():
        return None, text
    return match[1], match[2]


def short_name(model: str) -> str:
    """A folder is called by its own name, a hub model by its whole one."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def key_from(variable: str | None, option: str = "--api-key-env") -> str | None:
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(f"{option} {variable}: this environment variable is not set")
    return value


def per_second(text: str | None, option: str = "--rate") -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(
            f"{option} {text}: expected requests per second or minute, like 5/s or 100/m"
        )
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600, None: 1}[match[2]]
