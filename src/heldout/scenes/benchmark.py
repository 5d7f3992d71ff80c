"""A benchmark rendered from a seed: pictures, several questions each, and their scenes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import DRAWN
from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.scenes.leaks import SCENES, LeakWorld
from heldout.scenes.world import (
    BACKGROUNDS,
    COLOURS,
    SHAPES,
    SIZES,
    TEXTURES,
    Background,
    Scene,
    SceneObject,
)
from heldout.store import write_atomic

# scenes.jsonl: the exact scene behind every picture of a rendered benchmark, beside its table.


NAME = DRAWN
# The first line is text and no object, so that no reader takes the file for a table of items.
HEADER = "heldout scenes 1"
_MOST_OBJECTS = 64


@dataclass(frozen=True)
class DrawnScene:
    """A scene, and the picture that was drawn of it: its side and its pixel digest."""

    scene: Scene
    size: int
    pixels: str


def write_scenes(folder: Path, drawn: Mapping[str, DrawnScene]) -> None:
    """``drawn`` by the image's name in the table."""
    lines = [json.dumps(HEADER)]
    for image, drawn_scene in drawn.items():
        row = {
            "image": image,
            "size": drawn_scene.size,
            "pixels": drawn_scene.pixels,
            **asdict(drawn_scene.scene),
        }
        lines.append(json.dumps(row))
    write_atomic(folder / NAME, "\n".join(lines) + "\n")


def read_scenes(folder: Path) -> dict[str, DrawnScene]:
    """What ``write_scenes`` wrote; an InputError for anything else."""
    path = folder / NAME
    if not path.is_file():
        raise InputError(
            f"{folder} has no {NAME}: only a benchmark that heldout rendered from a seed has the "
            f"scenes behind its pictures"
        )
    header, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    if header != json.dumps(HEADER):
        raise InputError(
            f'{path} line 1: expected "{HEADER}", found {header[:60]!r}; write the benchmark again '
            f"with this version of heldout"
        )
    scenes: dict[str, DrawnScene] = {}
    for number, line in enumerate(lines, 2):
        try:
            row = json.loads(line)
            scenes[str(row["image"])] = _drawn(row)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} line {number}: not a scene ({error!r:.120})") from error
    return scenes


def _drawn(row: Mapping[str, Any]) -> DrawnScene:
    tone = _one_of(row["background"]["tone"], BACKGROUNDS)
    background = Background(
        tone, float(row["background"]["angle"]), int(row["background"]["grain"])
    )
    if not 0 < len(row["objects"]) <= _MOST_OBJECTS or not 0 < int(row["size"]) <= 8192:
        raise ValueError(f"{len(row['objects'])} objects at {row['size']} pixels")
    objects = tuple(
        SceneObject(
            _one_of(item["shape"], SHAPES),
            _one_of(item["colour"], COLOURS),
            _one_of(item["size"], SIZES),
            _one_of(item["texture"], TEXTURES),
            (_share(item["position"][0]), _share(item["position"][1])),
        )
        for item in row["objects"]
    )
    return DrawnScene(Scene(background, objects), int(row["size"]), str(row["pixels"]))


def _one_of(value: Any, known: Any) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{value!r:.40} is not one of {', '.join(known)}")
    return value


def _share(value: Any) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError(f"position {value!r:.40} is not between 0 and 1")
    return float(value)


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
        return sum(len(questions) for questions in self.questions.values())


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
        image = f"images/{world.picture_word}_{index:04d}.png"
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
