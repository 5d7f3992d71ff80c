"""One twin as it is published: the cells of its row that differ from the original's."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import FROM_ONE, Example, canonical_value, letter
from heldout.twin.names import file_name

#: columns that every published table has besides the benchmark's own
OLD_ANSWER, PROVENANCE = "original_answer", "twin"
_LETTERED = re.compile(r"\(?([A-Za-z])\)?[.:]?")


@dataclass(frozen=True)
class Published:
    example: Example  # as it was released
    new_answer: str
    new_index: int | None
    picture: Path  # a PNG file
    provenance: Mapping[str, Any]

    @property
    def image_name(self) -> str:
        """Relative to the table that names it."""
        return f"images/{file_name(self.example.id)}.png"

    def encoded(self) -> str:
        return base64.b64encode(self.picture.read_bytes()).decode()

    def answer_cell(self, raw: Any, answer_is: str) -> Any:
        """The new answer, written as the old one was: as a letter, a place or a text; in a list or not."""
        if isinstance(raw, list | tuple):
            return [self.answer_cell(raw[0], answer_is)] if raw else [self.new_answer]
        text = (canonical_value(raw) or "").strip()
        if self.new_index is None:
            return self.new_answer
        for style in dict.fromkeys((answer_is, "text", "letter", "index")):
            if style == "text" and text.casefold() == (self.example.answer or "").casefold():
                return self.new_answer
            match = _LETTERED.fullmatch(text) if style == "letter" else None
            old = self.example.answer_index or 0
            if match is not None and match[1].upper() == letter(old):
                new = letter(self.new_index)
                new = new if match[1].isupper() else new.lower()
                return text[: match.start(1)] + new + text[match.end(1) :]
            from_one = int(style == FROM_ONE)
            if style in ("index", FROM_ONE) and text == str(old + from_one):
                new_place = self.new_index + from_one
                return new_place if not isinstance(raw, str) else str(new_place)
        return self.new_answer
