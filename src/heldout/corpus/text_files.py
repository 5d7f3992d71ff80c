"""The files of a corpus of words: which of a folder are read, and what is said about the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from heldout.corpus.file_set import FileSet, is_pattern
from heldout.corpus.lines import COMPRESSED
from heldout.corpus.listing import FILE, HIDDEN, LINK, RUN_FOLDER, UNREADABLE, Entry, walk
from heldout.image.kinds import SIDECAR_ENDINGS, ending, is_sidecar, readable
from heldout.store import Dropped

LINES = (".jsonl", ".ndjson")
PAGES = (".txt", ".text", ".md", ".rst", ".html", ".htm", ".xml", ".nxml")
# Tables and documents that lie beside images are sidecars; among texts they would be unread words.
_NOTES = SIDECAR_ENDINGS - {".json", ".csv", ".tsv", *LINES, *PAGES}


class TextFile(NamedTuple):
    """``name`` is relative to the corpus; ``problem`` says why the file is not read."""

    name: str
    path: Path
    problem: Dropped | None = None


def text_files(location: str) -> Iterator[TextFile]:
    """Files in stable order: those to read, and those that cannot be."""
    root = Path(location)
    if is_pattern(location) or not root.is_dir():
        for name, path in FileSet(location, ()).files():
            yield TextFile(name, path)
        return
    for entry in walk(root):
        if is_text(entry.name) or not _is_note(entry):
            yield TextFile(entry.name, root / entry.name, _problem(entry, root / entry.name))


def is_lines(name: str) -> bool:
    """True for JSON Lines by name; Dolma and C4 call theirs ``.json.gz``."""
    end, packed = _ending(name)
    return end in LINES or (packed and end == ".json")


def is_text(name: str) -> bool:
    return is_lines(name) or _ending(name)[0] in PAGES


def _ending(name: str) -> tuple[str, bool]:
    """What a file holds by its name, and whether it is compressed."""
    end = ending(name)
    return (ending(name[: -len(end)]), True) if end in COMPRESSED else (end, False)


def _is_note(entry: Entry) -> bool:
    if entry.kind not in (FILE, LINK):
        return False
    return ending(entry.name) in _NOTES or (is_sidecar(entry.name) and not ending(entry.name))


def _problem(entry: Entry, path: Path) -> Dropped | None:
    name = readable(entry.name)
    if entry.kind == RUN_FOLDER:
        detail = "written by heldout; it is not part of the corpus"
        return Dropped("corpus", name, "run folder", detail, scope="words")
    if entry.kind == HIDDEN:
        return Dropped("corpus", name, "hidden folder", "not walked", scope="many")
    if entry.kind == UNREADABLE:
        return Dropped("corpus", name, "unreadable folder", "no permission?", scope="many")
    if entry.kind == LINK and path.is_dir():
        detail = "its files are read where they are"
        return Dropped("corpus", name, "link to a folder", detail, scope="words")
    if not path.is_file():  # a pipe would wait for ever, a broken link holds nothing
        return Dropped("corpus", name, "not a regular file", "expected a text file")
    if not is_text(entry.name):
        detail = f"ending '{ending(entry.name)}'; expected JSON Lines or plain text"
        return Dropped("corpus", name, "not a text file", detail)
    return None
