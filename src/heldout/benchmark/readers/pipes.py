"""ImageCLEF VQA-Med's text files: ``image|question|answer``, or with a category in second place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heldout.benchmark.readers.base import Row, head
from heldout.store import Dropped


class PipesReader:
    name = "vqa-med"
    suffixes = (".txt",)

    def recognises(self, path: Path) -> bool:
        lines = [line for line in head(path, 4096).split(b"\n")[:5] if line.strip()]
        return bool(lines) and all(line.count(b"|") >= 2 for line in lines[:4])

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        with path.open("r", encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file, 1):
                parts = line.rstrip("\r\n").split("|")
                if not line.strip():
                    continue
                if len(parts) < 3:
                    where = f"{path.name} line {number}"
                    yield Dropped("read", where, "too few fields", "expected image|question|answer")
                    continue
                values = {"image": parts[0], "img_id": parts[0]}
                if len(parts) >= 4:
                    values |= {
                        "category": parts[1],
                        "question": parts[2],
                        "answer": "|".join(parts[3:]),
                    }
                else:
                    values |= {"question": parts[1], "answer": parts[2]}
                yield Row(number, values)
