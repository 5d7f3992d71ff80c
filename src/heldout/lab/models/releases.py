"""Benchmarks of the worlds as people would download them: pictures, a table of items, and exact twins."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.image import ImageError, decode, to_rgb
from heldout.lab.models.pool import Lengths, Pool
from heldout.lab.models.worlds import (
    NATIVE,
    RELEASED,
    TWINS,
    WORLDS,
    LabItem,
    RowPacker,
    World,
    document,
    instructed,
    plain,
)
from heldout.scenes import paraphrased

# A real benchmark's training split as a pool of rows, beside what the worlds give without end.


def real_pool(benchmark: Benchmark, tokenizer: Any, side: int, lengths: Lengths, seed: int) -> Pool:
    """Per picture its items as plain turns, as instructed turns and as a text, in three drawn orders."""
    pictured, text = RowPacker(tokenizer, lengths.pictured), RowPacker(tokenizer, lengths.text)
    pixels: list[Any] = []
    rows: list[Any] = []
    owner: list[int] = []
    texts: list[Any] = []
    rng = np.random.default_rng((seed, 41))
    for picture, items in _pages(benchmark, side):
        for form in (plain, instructed, plain, instructed, document):
            drawn = [form(items[place]) for place in rng.permutation(len(items))]
            rows_of_page = pictured.rows(drawn)
            rows += rows_of_page
            owner += [len(pixels)] * len(rows_of_page)
        # The letter of an option is learnt sooner if its word has just occurred.
        if chosen := [item for item in items if item.options]:
            order = rng.permutation(len(chosen))
            pairs = [form(chosen[place]) for place in order for form in (plain, instructed)]
            rows_of_page = pictured.rows(pairs)
            rows += rows_of_page
            owner += [len(pixels)] * len(rows_of_page)
        texts += text.rows([document(item) for item in items])
        pixels.append(picture)
    return Pool(
        np.stack(pixels),
        np.stack([ids for ids, _ in rows]),
        np.stack([learnt for _, learnt in rows]),
        np.asarray(owner, dtype=np.int64),
        np.stack([ids for ids, _ in texts]),
        np.stack([learnt for _, learnt in texts]),
    )


def words(benchmark: Benchmark) -> Iterator[str]:
    for example in benchmark:
        item = LabItem(example.question or "", example.answer or "", tuple(example.options))
        yield document(item).learn


def _pages(benchmark: Benchmark, side: int) -> Iterator[tuple[Any, list[LabItem]]]:
    pages: dict[str, tuple[Any, list[LabItem]]] = {}
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        if not (example.question and example.answer and example.images):
            continue
        if cluster not in pages:
            try:
                picture = to_rgb(decode(example.images[0].read()))
            except ImageError:
                continue  # a picture that cannot be read teaches nothing
            small = picture.resize((side, side), Image.Resampling.BICUBIC)
            pages[cluster] = (np.asarray(small).transpose(2, 0, 1), [])
        item = LabItem(example.question, example.answer, tuple(example.options))
        pages[cluster][1].append(item)
    yield from pages.values()


# Twins that are as hard as their originals, so that a model that saw neither shows no drop.
#
# Several things make a changed picture harder without any memory. The right option of the original is often
# the only one that is to be seen in it, and stays in sight where the change brings another one in. A shape
# that is there three times is guessed more easily than one that is there once. What is asked for and absent
# has its shape and its colour in the original, and nothing of it once it is changed away. And some answers
# are likelier than others: one object is commoner than two, so that guessing fails on what was changed. A
# fair twin shows as many of the options as its original and its answer as often, could have been asked the
# question, and where there are few answers each of them is as often the new one as the old one.


_TRIES = 400
MANY = 6  # answers of one kind of question; of fewer, some are likelier than others


class Twin(NamedTuple):
    """``thing`` is the world's own; ``asked`` the original's question."""

    id: str
    thing: Any
    asked: Any
    answer: str


def draw_twin(
    world: World, thing: Any, asked: Any, rng: np.random.Generator
) -> tuple[Any, str] | None:
    """The thing with one attribute changed so that the answer is another one of those offered."""
    for _ in range(_TRIES):
        twin = world.vary(thing, rng)
        answer = asked.probe.answer(twin)
        if answer is None or answer == asked.answer:
            continue
        if (not asked.options or answer in asked.options) and fair(world, thing, twin, asked):
            return twin, answer
    return None


def fair(world: World, thing: Any, twin: Any, asked: Any) -> bool:
    """Whether guessing from what is in sight helps on the twin as much as on the thing."""
    shown, still = (_shown(world, subject, asked.options) for subject in (thing, twin))
    return shown == still and world.as_guessable(asked.probe, thing, twin)


def balanced(twins: Sequence[Twin]) -> list[Twin]:
    """Twins without those whose change of answer is too frequent."""
    kinds: dict[tuple[str, bool], list[Twin]] = defaultdict(list)
    for twin in twins:
        kinds[twin.asked.content_type, bool(twin.asked.options)].append(twin)
    kept: set[str] = set()
    for members in kinds.values():
        kept |= _even(members) if _few(members) else {twin.id for twin in members}
    return [twin for twin in twins if twin.id in kept]


def _few(twins: Sequence[Twin]) -> bool:
    """Among many answers none is much likelier than another: shapes, colours."""
    return len({answer for twin in twins for answer in (twin.asked.answer, twin.answer)}) <= MANY


def _even(twins: Sequence[Twin]) -> set[str]:
    """Ids of those that are left when each answer is as often old as new; the last ones go first."""
    left = list(twins)
    while True:
        surplus = Counter(twin.asked.answer for twin in left)
        surplus.subtract(twin.answer for twin in left)
        if not any(surplus.values()):
            return {twin.id for twin in left}
        # A twin that changes the most common answer into the rarest balances most.
        left.remove(max(left, key=lambda t: (surplus[t.asked.answer] - surplus[t.answer], t.id)))


def _shown(world: World, thing: Any, options: Sequence[str]) -> int:
    """How many of the options are words about the picture; places and numbers are never in sight."""
    words = set(re.findall(r"[a-z]+", world.describe(thing).lower()))
    return sum(
        set(re.findall(r"[a-z]+", option.lower())) <= words
        for option in options
        if option.isalpha()
    )


_FAST = 1  # of PNG: the pixels are the same, and most of the time went into the last few bytes
REWORDED = "paraphrase"  # the column with the same question in other words


@dataclass(frozen=True)
class Release:
    """``pages``: per picture in released order its name, its items by id, and other words about it."""

    world: str
    folder: Path
    twins: Path
    pages: tuple[tuple[str, tuple[tuple[str, Any], ...], tuple[LabItem, ...]], ...]


def write_release(
    folder: str | Path,
    world: str,
    *,
    images: int,
    seed: int,
    first: int | None = None,
    twinned: bool = True,
) -> Release:
    """``FOLDER/release`` and ``FOLDER/twins``, each with ``test.jsonl`` and pictures. Rows are grouped
    by picture; films are grouped by view, too, as hospitals release them. ``first``: only the first so
    many pictures, as the whole release has them."""
    drawn_world = WORLDS[world]
    things = list(_things(drawn_world, images, seed))
    if world == "films":
        things.sort(key=lambda pair: pair[1].view)  # stable: within a view the drawn order stays
    folder = Path(folder)
    release, twins = folder / "release", folder / "twins"
    rows, pages, drawn = [], [], []
    for target in (release, twins):
        (target / "images").mkdir(parents=True)
    for place, (index, thing) in enumerate(things[:first]):
        rng = drawn_world.rng(seed, RELEASED, images + index)
        name = f"images/{world}_{place:04d}.png"
        drawn_world.render(thing, NATIVE).save(release / name, compress_level=_FAST)
        items_of_page = drawn_world.ask(thing, rng, int(rng.integers(4, 7)))
        questions = {question.question for question in items_of_page}
        others = tuple(
            LabItem(question.question, question.answer, question.options)
            for question in drawn_world.ask(thing, rng, 12)
            if question.question not in questions
        )
        items = tuple(
            (f"{place:04d}-{number}", question) for number, question in enumerate(items_of_page)
        )
        pages.append((name, items, others))
        for id, asked in items:
            rows.append(_row(id, name, asked.question, asked.options, asked.answer, asked))
            if not twinned:
                continue
            changed = draw_twin(
                drawn_world, thing, asked, drawn_world.rng(seed, TWINS, 100 * index + int(id[5:]))
            )
            if changed is not None:  # else no single change answers it differently: no twin
                drawn.append(Twin(id, changed[0], asked, changed[1]))
    twin_rows = []
    for twin in balanced(drawn):
        name = f"images/{world}_{twin.id}.png"
        drawn_world.render(twin.thing, NATIVE).save(twins / name, compress_level=_FAST)
        asked = twin.asked
        twin_rows.append(_row(twin.id, name, asked.question, asked.options, twin.answer, asked))
    _write(release / "test.jsonl", rows)
    _write(twins / "test.jsonl", twin_rows)
    return Release(world, release, twins, tuple(pages))


def release_pages(release: Release) -> list[dict[str, Any]]:
    """The release in words, by picture, as contamination is planted from it."""
    return [
        {
            "name": name,
            "items": [
                [question.question, question.answer, list(question.options)]
                for _, question in items
            ],
            "paraphrases": [paraphrased(question.question) for _, question in items],
            "other": [[other.question, other.answer, list(other.options)] for other in others],
        }
        for name, items, others in release.pages
    ]


def _things(world: World, images: int, seed: int) -> Iterator[tuple[int, Any]]:
    for index in range(images):
        yield index, world.draw(world.rng(seed, RELEASED, index))


def _row(
    id: str, image: str, question: str, options: tuple[str, ...], answer: str, asked: Any
) -> str:
    return json.dumps(
        {
            "id": id,
            "image": image,
            "question": question,
            "options": list(options),
            "answer": answer,
            "answer_type": asked.answer_type,
            "content_type": asked.content_type,
            REWORDED: paraphrased(question),
        }
    )


def _write(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(rows) + "\n")
