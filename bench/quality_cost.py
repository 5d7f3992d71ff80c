"""Cost in the quality table: the demo's seconds, what commands need to start, what an installation weighs."""

from __future__ import annotations

import re
import shutil
import statistics
import time
from importlib import metadata
from pathlib import Path

from quality_figures import LOWER, Figure
from quality_words import heldout

STARTS = {"heldout --help": ("--help",), "heldout overlap --help": ("overlap", "--help")}
REPEATS = 5
# What people install for searching, and with the words' encoders.
INSTALLATIONS = ("vision", "vision,text")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def demo(out: Path) -> list[Figure]:
    """Alone on the machine: the seconds are those of a clock."""
    folder = out / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    begun = time.monotonic()
    _, seconds, _ = heldout("demo", "--out", folder, one_thread=False)
    wall = time.monotonic() - begun
    return [
        Figure("cost", "make demo", "wall", wall, "s", LOWER),
        Figure("cost", "make demo", "CPU", seconds, "s", LOWER),
    ]


def starts() -> list[Figure]:
    figures = []
    for name, words in STARTS.items():
        seconds = [heldout(*words)[1] for _ in range(REPEATS)]
        figures.append(
            Figure("cost", name, "CPU, median of five", statistics.median(seconds), "s", LOWER)
        )
    return figures


def installed() -> list[Figure]:
    """Files of heldout and of all it needs, as they lie in this environment."""
    figures = []
    for extras in INSTALLATIONS:
        names = needed("heldout", frozenset(extras.split(",")))
        size = sum(size_of(name) for name in names) / 1e6
        figures.append(
            Figure("cost", f"pip install heldout[{extras}]", "installed", round(size), "MB", LOWER)
        )
        figures.append(
            Figure("cost", f"pip install heldout[{extras}]", "packages", len(names), "", LOWER)
        )
    return figures


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """The package and what it requires, by the metadata of what is installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    seen: set[tuple[str, frozenset[str]]] = set()
    pending: list[tuple[str, frozenset[str]]] = [(canonicalize_name(name), extras)]
    while pending:
        now = pending.pop()
        if now in seen:
            continue
        seen.add(now)
        try:
            lines = metadata.requires(now[0]) or []
        except metadata.PackageNotFoundError:  # for another system
            seen.discard(now)
            continue
        for line in lines:
            wanted = Requirement(line)
            marker = wanted.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in now[1] | {""}):
                pending.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return {name for name, _ in seen}


def size_of(name: str) -> int:
    """Bytes of a package's files; of an editable one, of its source."""
    if name == "heldout":
        source = Path(__file__).resolve().parents[1] / "src/heldout"
        files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        return sum(path.stat().st_size for path in files)
    files_of = metadata.files(name) or []
    paths = [Path(str(file.locate())) for file in files_of if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())
