"""Tiny checkpoints and tiny training sets."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

TESTS = Path(__file__).resolve().parents[1]
COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 160, 40),
    "blue": (40, 60, 200),
    "grey": (120, 120, 120),
}


@pytest.fixture(scope="session")
def tiny_families() -> ModuleType:
    """The makers of tiny checkpoints, of every family that model/local knows."""
    spec = importlib.util.spec_from_file_location(
        "tiny_models_of_training", TESTS / "model/local/tiny_models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_families: ModuleType) -> Path:
    """A Qwen2-VL of a few thousand random weights, with a chat template."""
    folder: Path = tiny_families.save("qwen2_vl", tmp_path_factory.mktemp("tiny") / "qwen2-vl-tiny")
    return folder


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
        lines.append({
            "id": f"row-{seed}-{number}", "image": image, "question": question,
            "options": options, "answer": answer, "reasoning": f"It is {answer}.",
        })  # fmt: skip
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve training rows."""
    return write_rows(tmp_path_factory.mktemp("rows"), 12)


@pytest.fixture
def make_rows(tmp_path: Path) -> Callable[..., Path]:
    def make(count: int, seed: int = 0, name: str = "rows.jsonl") -> Path:
        return write_rows(tmp_path / f"made-{seed}", count, seed, name)

    return make
