"""scenes.jsonl: the exact scene behind every picture of a rendered benchmark, beside its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError
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

NAME = "scenes.jsonl"
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
