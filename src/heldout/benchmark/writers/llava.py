"""LLaVA conversations: kept or removed whole, since later turns lean on earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.base import Row, head
from heldout.benchmark.readers.json_rows import JsonLinesReader, numbered, stream_array
from heldout.benchmark.readers.llava import turns
from heldout.benchmark.writers.base import Part
from heldout.benchmark.writers.json_rows import write_entries, write_lines


class LlavaWriter:
    name = "llava"

    def units(self, path: Path) -> Mapping[int, int]:
        items = (
            numbered(path, stream_array(path)) if _is_array(path) else JsonLinesReader().rows(path)
        )
        units: dict[int, int] = {}
        for item in items:
            if isinstance(item, Row):
                for turn in turns(item, ""):
                    if isinstance(turn, dict):
                        units[len(units) + 1] = item.number
        return units

    def write(self, parts: Sequence[Part], target: Path) -> None:
        chosen = []
        for part in parts:
            units = self.units(part.path)
            chosen.append((part.path, sorted({units[row] for row in part.rows})))
        if _is_array(parts[0].path):
            write_entries(chosen, target)
        else:
            write_lines([(path, frozenset(numbers)) for path, numbers in chosen], target)


def _is_array(path: Path) -> bool:
    return head(path).lstrip()[:1] == b"["
