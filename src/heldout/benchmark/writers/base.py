"""What a benchmark writer is: some rows of files of one format, written in that format again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Part:
    """The rows of one file that are written, by the numbers its reader gives them."""

    path: Path
    rows: frozenset[int]


class Writer(Protocol):
    name: str  #: of the reader that reads what this writes

    def units(self, path: Path) -> Mapping[int, int]:
        """For every row the entry of the file it lies in, where entries hold several rows.

        Such rows are kept or removed together: taking one turn out of a conversation changes what
        the others mean. Empty where every row is an entry of its own.
        """
        ...

    def write(self, parts: Sequence[Part], target: Path) -> None:
        """The rows of all ``parts``, in order, as one file or folder; what is kept, verbatim."""
        ...
