"""Benchmarks of the worlds as people would download them: pictures, a table of items, and exact twins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.lab.fair_twins import Twin, balanced, draw_twin
from heldout.lab.forms import Asked
from heldout.lab.worlds import NATIVE, RELEASED, TWINS, WORLDS, World
from heldout.scenes.paraphrase import paraphrased

_FAST = 1  # of PNG: the pixels are the same, and most of the time went into the last few bytes
REWORDED = "paraphrase"  # the column with the same question in other words


@dataclass(frozen=True)
class Release:
    """``pages``: per picture in released order its name, its items by id, and other words about it."""

    world: str
    folder: Path
    twins: Path
    pages: tuple[tuple[str, tuple[tuple[str, Any], ...], tuple[Asked, ...]], ...]


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
    chosen = WORLDS[world]
    things = list(_things(chosen, images, seed))
    if world == "films":
        things.sort(key=lambda pair: pair[1].view)  # stable: within a view the drawn order stays
    folder = Path(folder)
    release, twins = folder / "release", folder / "twins"
    rows, pages, drawn = [], [], []
    for target in (release, twins):
        (target / "images").mkdir(parents=True)
    for place, (index, thing) in enumerate(things[:first]):
        rng = chosen.rng(seed, RELEASED, images + index)
        name = f"images/{world}_{place:04d}.png"
        chosen.render(thing, NATIVE).save(release / name, compress_level=_FAST)
        asked = chosen.ask(thing, rng, int(rng.integers(4, 7)))
        said = {one.question for one in asked}
        others = tuple(
            Asked(one.question, one.answer, one.options)
            for one in chosen.ask(thing, rng, 12)
            if one.question not in said
        )
        items = tuple((f"{place:04d}-{number}", one) for number, one in enumerate(asked))
        pages.append((name, items, others))
        for id, one in items:
            rows.append(_row(id, name, one.question, one.options, one.answer, one))
            if not twinned:
                continue
            changed = draw_twin(
                chosen, thing, one, chosen.rng(seed, TWINS, 100 * index + int(id[5:]))
            )
            if changed is not None:  # else no single change answers it differently: no twin
                drawn.append(Twin(id, changed[0], one, changed[1]))
    twin_rows = []
    for twin in balanced(drawn):
        name = f"images/{world}_{twin.id}.png"
        chosen.render(twin.thing, NATIVE).save(twins / name, compress_level=_FAST)
        one = twin.asked
        twin_rows.append(_row(twin.id, name, one.question, one.options, twin.answer, one))
    _write(release / "test.jsonl", rows)
    _write(twins / "test.jsonl", twin_rows)
    return Release(world, release, twins, tuple(pages))


def told(release: Release) -> list[dict[str, Any]]:
    """The release in words, by picture, as contamination is planted from it."""
    return [
        {
            "name": name,
            "items": [[one.question, one.answer, list(one.options)] for _, one in items],
            "paraphrases": [paraphrased(one.question) for _, one in items],
            "other": [[one.question, one.answer, list(one.options)] for one in others],
        }
        for name, items, others in release.pages
    ]


def _things(world: World, images: int, seed: int) -> Iterator[tuple[int, Any]]:
    for index in range(images):
        yield index, world.draw(world.rng(seed, RELEASED, index))


def _row(
    id: str, image: str, question: str, options: tuple[str, ...], answer: str, asked: Any
) -> str:
    return json.dumps({
        "id": id, "image": image, "question": question, "options": list(options), "answer": answer,
        "answer_type": asked.answer_type, "content_type": asked.content_type,
        REWORDED: paraphrased(question),
    })  # fmt: skip


def _write(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(rows) + "\n")
