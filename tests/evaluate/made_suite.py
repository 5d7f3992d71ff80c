"""A suite of two small benchmarks with pictures, the answers to them, and recorded files about them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WORDS = ("heart", "lung", "liver", "spleen", "kidney", "colon")
SIZES = {"organs": (36, 12), "sides": (24, 8)}  # items, pictures


def make_suite(folder: Path) -> Path:
    """The suite file; beside it the benchmarks, and ``answers.json`` for the server."""
    answers: dict[str, str] = {}
    for name, (items, pictures) in SIZES.items():
        home = folder / name / "images"
        home.mkdir(parents=True)
        for number in range(pictures):
            (home / f"{number}.png").write_bytes(_picture(f"{name}{number}"))
        rows = [_item(name, number, number * pictures // items) for number in range(items)]
        for row in rows:
            answers[row["question"]] = row["options"][ord(row["answer"]) - ord("A")]
        (folder / name / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "answers.json").write_text(json.dumps(answers))
    suite = folder / "suite.yaml"
    suite.write_text(
        "name: two\nprompt: medvlthinker\nmax_new_tokens: 64\n"
        "scorers: [medvlthinker, medvlthinker-substring]\nbenchmarks:\n"
        + "".join(
            f"  - {{name: {name}, source: {name}/test.jsonl, images: {name}/images, items: {items}}}\n"
            for name, (items, _) in SIZES.items()
        )
    )
    return suite


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name / "test.jsonl").read_text().splitlines()]


def record(folder: Path, path: Path, model: str, wrong: int, *, benchmark: bool = True) -> Path:
    """Replies of a model that is wrong on every ``wrong``-th item, as JSON Lines."""
    lines = []
    for name in SIZES:
        for number, row in enumerate(rows_of(folder, name)):
            place = ord(row["answer"]) - ord("A")
            place = (place + 1) % len(row["options"]) if number % wrong == 0 else place
            reply = f"<think>so</think><answer>{'ABC'[place]}</answer>"
            told = {"id": row["id"], "model": model, "prediction": reply}
            lines.append(json.dumps({**told, "benchmark": name} if benchmark else told))
    path.write_text("\n".join(lines) + "\n")
    return path


def _item(name: str, number: int, picture: int) -> dict[str, Any]:
    options = [WORDS[(number + step) % len(WORDS)] for step in range(3)]
    return {
        "id": f"{name}-{number}",
        "image": f"{picture}.png",
        "options": options,
        "question": f"Which {name[:-1]} is marked ({number})?",
        "answer": "ABC"[number * 7 % 3],
    }


def _picture(seed: str) -> bytes:
    rng = np.random.default_rng(list(seed.encode()))
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()
