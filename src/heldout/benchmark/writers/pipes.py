"""ImageCLEF VQA-Med's text files: chosen lines as they were, and the answers that belong to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.pipes import Answers
from heldout.benchmark.writers.base import Part
from heldout.benchmark.writers.json_text import load_text, store_text


class PipesWriter:
    name = "vqa-med"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[Part], target: Path) -> None:
        kept: list[str] = []
        given: list[str] = []
        for part in parts:
            answers = Answers.beside(part.path)
            # Lines end where the reader lets them end; bytes that are not UTF-8 survive.
            lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", load_text(part.path))
            for number, line in enumerate(lines, 1):
                image = line.removeprefix("\ufeff").split("|")[0]
                texts = answers.take(image)
                if number in part.rows:
                    kept.append(line if line.endswith(("\n", "\r")) else line + "\n")
                    given += ["|".join([image, *texts]) + "\n"] if texts else []
        store_text(target, "".join(kept))
        if given:
            stem = re.sub(r"questions?", "", target.stem, flags=re.IGNORECASE).rstrip("-_")
            store_text(target.with_name(f"{stem}-Answers.txt"), "".join(given))
