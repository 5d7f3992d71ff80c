"""Unlimited training data of a world: pictures and rows of tokens, painted on all cores into files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.engine import usable_cores
from heldout.lab.models.worlds import (
    DESCRIBE,
    TRAINING,
    WORLDS,
    Ids,
    LabItem,
    Piece,
    RowPacker,
    World,
    beginning,
    document,
    gap,
    instructed,
    plain,
    show,
)

CHUNK = 500
QUESTIONS = 12  # asked of every training picture


@dataclass(frozen=True)
class Lengths:
    """Tokens of a row under a picture, and of one without."""

    pictured: int = 160
    text: int = 640


@dataclass
class Pool:
    """``picture`` says which of ``pixels`` a row of ``ids`` stands under; text rows have none."""

    pixels: NDArray[np.uint8]
    ids: Ids
    learnt: NDArray[np.uint8]
    picture: NDArray[np.int64]
    text_ids: Ids
    text_learnt: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)


def joined(pools: Sequence[Pool]) -> Pool:
    starts = np.cumsum([0, *(len(pool.pixels) for pool in pools)])
    parts = zip(pools, starts, strict=False)
    return Pool(
        np.concatenate([pool.pixels for pool in pools]),
        np.concatenate([pool.ids for pool in pools]),
        np.concatenate([pool.learnt for pool in pools]),
        np.concatenate([pool.picture + start for pool, start in parts]),
        np.concatenate([pool.text_ids for pool in pools]),
        np.concatenate([pool.text_learnt for pool in pools]),
    )


def paint(
    world: str,
    count: int,
    seed: int,
    tokenizer_file: str,
    side: int,
    lengths: Lengths,
    folder: Path,
    workers: int | None = None,
) -> Pool:
    """``count`` pictures with their rows; what the folder holds already is not painted again."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (
            world,
            start,
            min(CHUNK, count - start),
            seed,
            tokenizer_file,
            side,
            lengths,
            str(folder / f"{world}-{seed}-{start}-{min(CHUNK, count - start)}-{side}.npz"),
        )
        for start in range(0, count, CHUNK)
    ]
    missing = [job for job in jobs if not Path(job[-1]).exists()]
    workers = workers or usable_cores()
    if workers == 1 or len(missing) <= 1:
        for job in missing:
            _paint_chunk(job)
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as cores:
            list(cores.map(_paint_chunk, missing))
    pools = []
    for job in jobs:
        with np.load(job[-1]) as arrays:
            pools.append(Pool(**{name: arrays[name] for name in arrays.files}))
    return joined(pools)


def _paint_chunk(job: tuple[Any, ...]) -> None:
    name, start, count, seed, tokenizer_file, side, lengths, target = job
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_file)
    pictured, text = RowPacker(tokenizer, lengths.pictured), RowPacker(tokenizer, lengths.text)
    world = WORLDS[name]
    pixels = np.empty((count, 3, side, side), dtype=np.uint8)
    rows: list[Any] = []
    owner: list[int] = []
    texts: list[Any] = []
    running: list[Piece] = []
    for place in range(count):
        rng = world.rng(seed, TRAINING, start + place)
        thing = world.draw(rng)
        # Half as painted at this size and half as shrunk: the models read both.
        picture = show(world, thing, side, shrunk=bool(rng.random() < 0.5))
        pixels[place] = np.asarray(picture).transpose(2, 0, 1)
        items = questions(world, thing, rng)
        drilled = [*items, *world.drill(thing, rng)]
        for pieces in mixed(drilled, world.describe(thing), rng):
            ids, learnt, taken = pictured.row(pieces)
            if taken:
                rows.append((ids, learnt))
                owner.append(place)
        form = plain if rng.random() < 0.15 else document
        running += [form(item) for item in items[: int(rng.integers(3, 7))]]
        if place % 8 == 7:
            texts += text.rows(running)
            running = []
    texts += text.rows(running)
    partial = Path(target).with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez(
            file,
            pixels=pixels,
            ids=np.stack([row_ids for row_ids, _ in rows]),
            learnt=np.stack([row_learnt for _, row_learnt in rows]),
            picture=np.asarray(owner, dtype=np.int64),
            text_ids=np.stack([row_ids for row_ids, _ in texts]),
            text_learnt=np.stack([row_learnt for _, row_learnt in texts]),
        )
    partial.replace(target)


def questions(world: World, thing: Any, rng: np.random.Generator) -> list[LabItem]:
    return [
        LabItem(question.question, question.answer, question.options)
        for question in world.ask(thing, rng, QUESTIONS)
    ]


def mixed(items: Sequence[LabItem], text: str, rng: np.random.Generator) -> list[list[Piece]]:
    """Three rows a picture: plain turns, instructed turns, and one of a text, of answers that come first in
    words and then by letter, or of a description with turns of every kind."""

    def drawn() -> list[LabItem]:
        return [items[place] for place in rng.permutation(len(items))]

    def either(item: LabItem) -> Piece:
        kind = rng.random()
        if kind < 0.15:
            return gap(item, rng.random()) if kind < 0.1 else beginning(item)
        return (plain if kind < 0.5 else instructed)(item)

    kind = rng.random()
    if kind < 0.25:
        third = [document(item) for item in drawn()]
    elif kind < 0.5:
        # The letter of an option is learnt sooner if its word has just occurred.
        chosen = [item for item in drawn() if item.options]
        third = [form(item) for item in chosen for form in (plain, instructed)]
    else:
        third = [plain(LabItem(DESCRIBE, text)), *map(either, drawn())]
    # Picking a letter is the hardest to learn, and the longest to write: those come first.
    letters = sorted(drawn(), key=lambda item: not item.options)
    return [[plain(item) for item in drawn()], [instructed(item) for item in letters], third]
