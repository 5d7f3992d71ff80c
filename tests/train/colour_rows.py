"""Training sets and benchmarks of a few pictures in one colour each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 160, 40),
    "blue": (40, 60, 200),
    "grey": (120, 120, 120),
}


def write_rows(folder: Path, count: int, seed: int = 0, name: str = "rows.jsonl") -> Path:
    """Noise in one colour a picture: "What colour is it?" with four options and a reasoning trace."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        names = list(COLOURS)
        answer = names[int(rng.integers(len(names)))]
        noise = rng.integers(-30, 31, (56, 56, 3))
        pixels = np.clip(np.asarray(COLOURS[answer]) + noise, 0, 255).astype(np.uint8)
        image = f"images/{seed}-{number}.png"
        Image.fromarray(pixels).save(folder / image)
        options = [names[place] for place in rng.permutation(len(names))]
        question = f"What colour is picture {seed}-{number}?"
        lines.append(
            {
                "id": f"row-{seed}-{number}",
                "image": image,
                "question": question,
                "options": options,
                "answer": answer,
                "reasoning": f"It is {answer}.",
            }
        )
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
