"""ImageCLEF VQA-Med's text files: chosen lines as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.writers.base import Part


class PipesWriter:
    name = "vqa-med"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[Part], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        kept: list[str] = []
        for part in parts:
            # Lines end where the reader lets them end; bytes that are not UTF-8 survive.
            with part.path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
                for number, line in enumerate(file, 1):
                    if number in part.rows:
                        kept.append(line if line.endswith(("\n", "\r")) else line + "\n")
        target.write_bytes("".join(kept).encode("utf-8", "surrogateescape"))
