"""A benchmark rendered from a seed: pictures, several questions each, and their scenes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.scenes.leak_world import SCENES, LeakWorld
from heldout.scenes.scene_file import DrawnScene, write_scenes
from heldout.scenes.world import Scene
from heldout.store import write_atomic

IMAGE_SIZE = 224
# Generators are seeded with (seed, stream, index): a picture never depends on the ones before it,
# and the benchmark and a corpus of one seed share no random numbers.
BENCHMARK_STREAM, CORPUS_STREAM = 1, 2


@dataclass(frozen=True)
class WrittenBenchmark:
    """What was written where, with the scene behind every picture and what is asked about it."""

    folder: Path
    seed: int
    scenes: Mapping[str, Any]  # scenes or films, by the image's name in the table, in release order
    questions: Mapping[str, tuple[tuple[str, Any], ...]]  # by the same: (item id, question)

    @property
    def images(self) -> int:
        return len(self.scenes)

    @property
    def items(self) -> int:
        return sum(len(asked) for asked in self.questions.values())


def write_benchmark(
    folder: str | Path, *, images: int = 60, seed: int = 0, world: LeakWorld = SCENES
) -> WrittenBenchmark:
    """Write ``images/*.png``, ``test.jsonl`` and, for exact twins, the scenes behind the pictures.

    Rows are grouped by image, as VQA sets come.
    """
    folder = Path(folder)
    if images < 1:
        raise InputError(f"images={images}: a benchmark needs at least one image")
    refuse_leftovers(folder)
    (folder / "images").mkdir(parents=True)
    scenes: dict[str, Any] = {}
    drawn: dict[str, DrawnScene] = {}
    questions: dict[str, tuple[tuple[str, Any], ...]] = {}
    lines: list[str] = []
    seen: set[str] = set()
    for index in range(images):
        rng = world.rng(seed, BENCHMARK_STREAM, index)
        scene = world.draw(rng)
        picture = world.render(scene, IMAGE_SIZE)
        while (digest := pixel_digest(picture)) in seen:
            scene = world.draw(rng)
            picture = world.render(scene, IMAGE_SIZE)
        seen.add(digest)
        image = f"images/{world.one}_{index:04d}.png"
        picture.save(folder / image)
        asked = world.ask(scene, rng, int(rng.integers(4, 7)))
        scenes[image] = scene
        if isinstance(scene, Scene):
            drawn[image] = DrawnScene(scene, IMAGE_SIZE, digest)
        questions[image] = tuple((f"{index:04d}-{n}", question) for n, question in enumerate(asked))
        lines += [_line(id, image, question) for id, question in questions[image]]
    if drawn:  # films have no twin file
        write_scenes(folder, drawn)
    write_atomic(folder / "test.jsonl", "\n".join(lines) + "\n")
    return WrittenBenchmark(folder, seed, scenes, questions)


def refuse_leftovers(folder: Path) -> None:
    """Files of an earlier, larger run would be read as part of this one."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} exists and is not an empty folder; remove it or choose another place"
        )


def _line(id: str, image: str, question: Any) -> str:
    row = {
        "id": id,
        "image": image,
        "question": question.question,
        "options": list(question.options),
        "answer": question.answer,
        "answer_type": question.answer_type,
        "content_type": question.content_type,
    }
    return json.dumps(row, ensure_ascii=False)
