"""Does a path hold words and no images? Tables of questions about images are for other readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from heldout.benchmark import Source
from heldout.benchmark.fields import FieldMap
from heldout.benchmark.readers import Row, find_reader
from heldout.benchmark.source import split_of
from heldout.corpus.file_set import FileSet, is_pattern
from heldout.corpus.lines import is_compressed
from heldout.corpus.listing import is_run_folder
from heldout.corpus.text_files import is_lines, is_text
from heldout.errors import HeldoutError
from heldout.image.kinds import HEAD, IMAGE_ENDINGS, ending, is_sidecar, looks_like_image

_LOOK = 2000  # entries of a folder that are looked at
_FOLDERS = 20
_OPENED = 50  # files that are opened
_ROWS = 50


def holds_text(source: Source) -> bool:
    """True for JSON Lines without images, plain text, and folders of nothing else."""
    if source.selection:  # rows are selected from tables
        return False
    path = source.path
    if is_pattern(source.location):
        first = next(FileSet(source.location, ()).files(), None)
        return first is not None and is_text(first[0])
    if path.is_file():
        return is_text(path.name) and not _is_table(path)
    if not path.is_dir() or find_reader(path) is not None:
        return False
    files = sorted(_some_files(path))
    texts = [file for file in files if is_text(file.name)]
    if not texts or any(ending(file.name) in IMAGE_ENDINGS for file in files):
        return False
    unknown = (file for file in files if not is_sidecar(file.name) and not is_text(file.name))
    if any(_looks_like_image(file) for file in itertools.islice(unknown, _OPENED)):
        return False
    if any(_is_table(file) for file in files[:_OPENED]):
        return False
    # "train" beside "test" is a choice that only the user can make.
    return len({split_of(file.stem) for file in texts if is_lines(file.name)} - {None}) < 2


def first_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """What a benchmark reader finds in the first rows of a file: columns by field, if they say anything."""
    try:
        reader = find_reader(path)
        if reader is None or reader.name == "image-folder":  # a corpus lists folders in flat memory
            return {}
        rows = itertools.islice(reader.rows(path), _ROWS)
        first = [row.values for row in rows if isinstance(row, Row)]
        columns = FieldMap.infer(first).columns if first else {}
        return {
            field: said
            for field, names in columns.items()
            if (said := tuple(name for name in names if any(row.get(name) for row in first)))
        }
    except (HeldoutError, OSError, ValueError):
        return {}


def _is_table(path: Path) -> bool:
    """True for a table that is not JSON Lines, and for JSON Lines about images."""
    if is_lines(path.name) and is_compressed(path):  # nobody else unpacks it
        return False
    columns = first_columns(path)
    return bool(columns.get("image") or (columns.get("question") and not is_lines(path.name)))


def _some_files(folder: Path) -> Iterator[Path]:
    """Some files of a folder and of the folders in it."""
    entries = list(itertools.islice(folder.iterdir(), _LOOK))
    inner = sorted(path for path in entries if path.is_dir() and not is_run_folder(str(path)))
    below = (itertools.islice(path.iterdir(), _LOOK) for path in inner[:_FOLDERS])
    for path in itertools.chain(entries, *below):
        if not path.name.startswith(".") and path.is_file():
            yield path


def _looks_like_image(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return looks_like_image(file.read(HEAD))
    except OSError:
        return False
