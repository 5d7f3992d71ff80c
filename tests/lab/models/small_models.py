"""What tests of the small models share: a tokenizer of few words, and rows about scenes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from heldout.lab.models.pool import Lengths, Pool, mixed, paint, questions
from heldout.lab.models.sheet import learn_tokenizer
from heldout.lab.models.worlds import SCENES, TRAINING

LENGTHS = Lengths(pictured=96, text=128)


@functools.cache
def tokenizer() -> Any:
    texts = []
    for index in range(20):
        rng = SCENES.rng(0, TRAINING, index)
        scene = SCENES.draw(rng)
        items = [*questions(SCENES, scene, rng), *SCENES.drill(scene, rng)]
        for pieces in mixed(items, SCENES.describe(scene), rng):
            texts += [piece.read + piece.learn for piece in pieces]
    return learn_tokenizer(texts, 700)


def pool(folder: Path, count: int = 12) -> Pool:
    file = folder / "tokenizer.json"
    tokenizer().backend_tokenizer.save(str(file))
    return paint("scenes", count, 0, str(file), 32, LENGTHS, folder / "pool", workers=1)
