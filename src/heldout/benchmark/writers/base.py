"""What a benchmark writer is: some rows of files of one format, written in that format again."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heldout.benchmark.example import Example
from heldout.errors import InputError
from heldout.image import FileOnDisk


@dataclass(frozen=True)
class FilePart:
    """The rows of one file that are written, by the numbers its reader gives them."""

    path: Path
    rows: frozenset[int]


class BenchmarkWriter(Protocol):
    name: str  #: of the reader that reads what this writes

    def units(self, path: Path) -> Mapping[int, int]:
        """For every row the entry of the file it lies in, where entries hold several rows.

        Such rows are kept or removed together: taking one turn out of a conversation changes what
        the others mean. Empty where every row is an entry of its own.
        """
        ...

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        """The rows of all ``parts``, in order, as one file or folder; what is kept, verbatim."""
        ...


# Images that lie beside a data file travel with it, to the place where its names find them.


def copy_pictures(
    examples: Iterable[Example], base: Path, out: Path, table: Path, images: Path | None
) -> int:
    """Copy the image files of ``examples`` below ``out``; how many distinct ones there were.

    A file below ``base`` (the dataset's folder) keeps its place. One that lies elsewhere was found
    through ``images``, the user's --images, and goes to images/ beside ``table``, the new data file.
    """
    done: set[str] = set()
    for example in examples:
        for ref in example.images:
            if not isinstance(ref.location, FileOnDisk) or ref.location.path in done:
                continue
            done.add(ref.location.path)
            path = Path(ref.location.path)
            place = _place(path, base, out) or (
                _place(path, images, table.parent / "images") if images is not None else None
            )
            if place is not None:
                copy_picture(path, place)
    return len(done)


def _place(path: Path, base: Path, out: Path) -> Path | None:
    try:
        relative = Path(os.path.normpath(path.relative_to(base)))
    except ValueError:
        return None
    # 'a/../../b' is below the folder by its letters only.
    return None if os.pardir in relative.parts else out / relative


def copy_picture(path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        if not filecmp.cmp(path, place, shallow=False):
            raise InputError(
                f"two different images want the same name {place.name}: {path} and one copied before. "
                f"Give the splits one folder of images, or rename one of the two"
            )
        return
    shutil.copyfile(path, place)
