"""The data files of a corpus: one file, a folder of them, or a pattern like ``{000..099}.tar``."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.source import split_of
from heldout.corpus.listing import FILE, LINK, walk

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


def is_pattern(location: str) -> bool:
    return not Path(location).exists() and bool(
        _RANGE.search(location) or _CHOICE.search(location) or glob.has_magic(location)
    )


@dataclass(slots=True)
class FileSet:
    """``endings`` say which files of a folder belong; all files of a pattern do."""

    location: str
    endings: tuple[str, ...]
    split: str | None = None  # keep only files whose path speaks of this split

    def files(self) -> Iterator[tuple[str, Path]]:
        """(name relative to the root, path) in stable order; a range may name a missing file."""
        root = Path(self.location)
        if is_pattern(self.location):
            for text in expand(self.location):
                for path in self._matches(text):
                    name = path.relative_to(self.root()).as_posix()
                    if self._belongs(name):
                        yield name, path
        elif root.is_dir():
            for entry in walk(root):
                path = root / entry.name
                if entry.kind == LINK and not path.is_file():
                    continue
                if (
                    entry.kind in (FILE, LINK)
                    and entry.name.lower().endswith(self.endings)
                    and not path.name.startswith(".")
                    and self._belongs(entry.name)
                ):
                    yield entry.name, path
        else:
            yield root.name, root

    def root(self) -> Path:
        """The folder that file names are relative to, and below which images are looked for."""
        path = Path(self.location)
        if is_pattern(self.location):
            fixed = re.split(r"[{*?\[]", self.location, maxsplit=1)[0]
            return Path(fixed + "x").parent
        return path if path.is_dir() else path.parent

    def _matches(self, text: str) -> list[Path]:
        if not glob.has_magic(text):
            return [Path(text)]
        root = self.root()
        return sorted(root.glob(str(Path(text).relative_to(root))))

    def _belongs(self, name: str) -> bool:
        if self.split is None:
            return True
        return any(split_of(part) == self.split for part in Path(name).with_suffix("").parts)


def expand(pattern: str) -> Iterator[str]:
    """Bash's braces: ``{00..12}`` counts with leading zeros, ``{a,b}`` chooses."""
    if match := _RANGE.search(pattern):
        width = len(match[1]) if match[1].startswith("0") or len(match[1]) == len(match[2]) else 0
        options: Iterator[str] = (
            str(number).zfill(width) for number in range(int(match[1]), int(match[2]) + 1)
        )
    elif match := _CHOICE.search(pattern):
        options = iter(match[1].split(","))
    else:
        yield pattern
        return
    for option in options:
        yield from expand(pattern[: match.start()] + option + pattern[match.end() :])
