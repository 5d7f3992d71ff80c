"""PathVQA's official files: an image with all its questions is one entry, kept or removed whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.base import Row
from heldout.benchmark.readers.json_rows import stream_array
from heldout.benchmark.readers.pathvqa import PathVqaReader
from heldout.benchmark.writers.base import Part
from heldout.benchmark.writers.json_rows import write_entries
from heldout.store import Dropped


class PathVqaWriter:
    name = "pathvqa"

    def units(self, path: Path) -> Mapping[int, int]:
        rows = (row for row in PathVqaReader().rows(path) if isinstance(row, Row))
        units: dict[int, int] = {}
        for position, entry in enumerate(stream_array(path), 1):
            for _ in range(_questions(entry)):
                units[next(rows).number] = position
        return units

    def write(self, parts: Sequence[Part], target: Path) -> None:
        chosen = []
        for part in parts:
            units = self.units(part.path)
            chosen.append((part.path, sorted({units[row] for row in part.rows})))
        write_entries(chosen, target)


def _questions(entry: object) -> int:
    """How many rows the reader makes of an entry; none of one it drops."""
    if isinstance(entry, Dropped) or not isinstance(entry, dict) or "img_id" not in entry:
        return 0
    try:
        questions, answers = entry["sentf"]["pvqa"], entry["labelf"]["pvqa"]
    except (KeyError, TypeError):
        return 0
    return len(questions) if len(questions) == len(answers) else 0
