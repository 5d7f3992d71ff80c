"""Image fields of a delimited file: base64 stays there, and rows may share another row's image."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.records import Record
from heldout.image import ImageRef, TextField
from heldout.image.location import split_list

_IMAGE_COLUMN = re.compile(r".*(image|img|picture|figure|photo).*|jpe?g|png|webp", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_MAGIC = (b"\xff\xd8", b"\x89PN", b"GIF", b"BM", b"RIF", b"II*", b"MM\0")
_SHORTEST_IMAGE = 64  # VLMEvalKit: whatever is shorter names another row

References = Callable[[str, str], Iterator[tuple[str, str, Record, int]]]


class ImageFields:
    """Puts references in place of base64; ``references`` reads the file again if rows share."""

    def __init__(
        self, path: Path, columns: list[str], delimiter: str, references: References
    ) -> None:
        self.path = path
        self.columns = columns
        self.delimiter = delimiter
        self.images = [column for column in columns if _IMAGE_COLUMN.fullmatch(column)]
        lowered = {column.lower(): column for column in columns}
        self.index = lowered.get("index")
        self.shared = lowered.get("image")
        self._references = references
        self._all: dict[str, Any] | None = None

    def placed(self, values: dict[str, Any], record: Record, where: str) -> dict[str, Any]:
        """The row with image references in place of base64 fields."""
        for column in self.images:
            text = values[column]
            if column == self.shared and self.index is not None and self._names_a_row(text):
                values[column] = self._by_index().get(text.strip(), text)
            else:
                values[column] = self._image(text, column, record, where)
        return values

    def _names_a_row(self, text: str) -> bool:
        short = text.strip()
        return len(short) <= _SHORTEST_IMAGE and short.isascii() and short.isdecimal()

    def _by_index(self) -> dict[str, Any]:
        """Images by the index of their row; the row referred to may come later in the file."""
        if self._all is None:
            assert self.index is not None and self.shared is not None
            self._all = {}
            for index, text, record, number in self._references(self.shared, self.index):
                if not self._names_a_row(text):
                    where = f"{self.path.name} row {number}"
                    self._all[index.strip()] = self._image(text, self.shared, record, where)
        return self._all

    def _image(self, text: str, column: str, record: Record, where: str) -> Any:
        parts = split_list(text.strip())
        if len(parts) == 1 and parts[0] == text.strip():
            return self._reference(column, record, where, -1) if _is_encoded(text) else text
        if not any(_is_encoded(part) for part in parts):
            return parts
        return [
            self._reference(column, record, where, position) if _is_encoded(part) else part
            for position, part in enumerate(parts)
        ]

    def _reference(self, column: str, record: Record, where: str, position: int) -> ImageRef:
        field = self.columns.index(column)
        location = TextField(
            str(self.path),
            record.offset,
            record.length,
            self.delimiter,
            field,
            record.encoding,
            position,
        )
        return ImageRef(where if position < 0 else f"{where} image {position + 1}", location)


def _is_encoded(text: str) -> bool:
    """Base64 of an image or a data URL, and not a path that happens to be long."""
    text = text.strip()
    if text.startswith("data:"):
        return True
    if len(text) <= _SHORTEST_IMAGE or not _BASE64.fullmatch(text[:4096]):
        return False
    try:
        start = base64.b64decode(text[:16])
    except binascii.Error:
        return len(text) > 512
    return len(text) > 512 or start.startswith(_MAGIC)
