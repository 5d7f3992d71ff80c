"""PathVQA's official files: per image two parallel lists, the questions and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import Row, head
from heldout.benchmark.readers.json_rows import stream_array
from heldout.store import Dropped


class PathVqaReader:
    name = "pathvqa"
    suffixes = (".json",)

    def recognises(self, path: Path) -> bool:
        start = head(path, 4096)
        return b'"labelf"' in start and b'"sentf"' in start

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        number = 0
        for position, entry in enumerate(stream_array(path), 1):
            if isinstance(entry, Dropped):
                yield entry
                continue
            where = f"{path.name} image {position}"
            try:
                image = entry["img_id"]
                questions, answers = entry["sentf"]["pvqa"], entry["labelf"]["pvqa"]
            except (KeyError, TypeError) as error:
                yield Dropped(
                    "read", where, "missing field", f"expected img_id, sentf, labelf: {error}"
                )
                continue
            if len(questions) != len(answers):
                detail = f"{image}: {len(questions)} questions but {len(answers)} answers"
                yield Dropped("read", where, "questions and answers do not pair", detail)
                continue
            for index, (question, answer) in enumerate(zip(questions, answers, strict=True)):
                number += 1
                best = _best(answer)
                values = {"id": f"{image}_{index}", "image": image, "img_id": image}
                yield Row(number, {**values, "question": question, "answer": best})


def _best(answer: Any) -> str:
    """Answers come as {text: weight}; anything else is kept as it is written."""
    if isinstance(answer, dict) and answer:
        return str(max(answer, key=lambda text: answer[text]))
    return str(answer)
