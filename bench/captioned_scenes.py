"""Captioned scenes with known leaks: what a dual encoder is trained on, and what it is evaluated on.

A class is the colour and shape of a scene's one large object, and every caption names that object. Part of
the test pictures stand in the training set: as they are or re-saved (*hard*), or as the same view of
another scene (*soft*), under their own label or under another, as in the ImageNet of the published study.
Only NumPy and Pillow are needed to draw them, so that any machine can.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from heldout.scenes import (
    COLOURS,
    SHAPES,
    Scene,
    caption,
    pick,
    random_scene,
    rearranged,
    refuse_leftovers,
    render,
)
from heldout.store import replacing, write_atomic

SIDE = 96  # pixels of a picture
QUALITY, RESAVED = 95, 75  # of a JPEG file, and of a copy that somebody saved again
TEMPLATES = (
    "A large {} on a cream background.",
    "A large {} on a sky background.",
    "A large {} on a mint background.",
    "A large {} on a lavender background.",
    "A large {} on a peach background.",
    "A large {} on a mist background.",
)
_TEST, _STRANGER, _COPY = 31, 32, 33  # streams: what one draws never depends on another
_SHARD = 1000


@dataclass(frozen=True)
class Arm:
    """One way in which test pictures leaked."""

    name: str
    degree: str  # hard: the picture itself; soft: the same view of another scene
    label: str  # same or different


ARMS = (
    Arm("hard, same label", "hard", "same"),
    Arm("hard, different label", "hard", "different"),
    Arm("soft, same label", "soft", "same"),
    Arm("soft, different label", "soft", "different"),
)


@dataclass(frozen=True)
class Captioned:
    """One picture as a file, its class and a sentence about it."""

    id: str
    data: bytes
    label: str
    caption: str
    title: str  # names the large object alone, as the name of a file may
    arm: str = ""  # of a leak, or of the test picture that leaked
    of: str = ""  # of a leak: the test picture


@dataclass(frozen=True)
class World:
    """How many pictures: ``each`` of the test's per arm leaked, ``clean`` did not."""

    strangers: int = 30_000
    each: int = 400
    clean: int = 1_200
    seed: int = 0

    @property
    def test(self) -> int:
        return len(ARMS) * self.each + self.clean

    @property
    def train(self) -> int:
        return self.strangers + len(ARMS) * self.each

    def test_picture(self, index: int) -> Captioned:
        scene, rng = self._test_scene(index)
        arm = self.arm_of(index)
        return Captioned(
            f"test-{index:05d}",
            _saved(render(scene, SIDE), QUALITY),
            label_of(scene),
            _caption(scene, rng),
            _title(scene),
            arm.name if arm else "",
        )

    def train_picture(self, index: int, *, leaky: bool = True) -> Captioned:
        """Strangers, then the leaks in the order of the test; without leaks more strangers instead."""
        leaked = index - self.strangers
        if leaked >= 0 and leaky:
            return self._leak(leaked)
        rng = np.random.default_rng((self.seed, _STRANGER, index))
        scene = scene_with_one_large(rng)
        return Captioned(
            f"train-{index:06d}",
            _saved(render(scene, SIDE), QUALITY),
            label_of(scene),
            _caption(scene, rng),
            _title(scene),
        )

    def arm_of(self, index: int) -> Arm | None:
        """Of a test picture; None where it did not leak."""
        return ARMS[index // self.each] if index < len(ARMS) * self.each else None

    def _test_scene(self, index: int) -> tuple[Scene, np.random.Generator]:
        rng = np.random.default_rng((self.seed, _TEST, index))
        return scene_with_one_large(rng), rng

    def _leak(self, index: int) -> Captioned:
        arm = self.arm_of(index)
        assert arm is not None
        original = self.test_picture(index)
        scene, _ = self._test_scene(index)
        rng = np.random.default_rng((self.seed, _COPY, index))
        if arm.degree == "soft":
            data = _saved(render(rearranged(scene, rng), SIDE), QUALITY)
        elif rng.random() < 0.5:
            data = original.data
        else:
            data = _saved(render(scene, SIDE), RESAVED)
        told = scene if arm.label == "same" else _mislabelled(scene, rng)
        # A whole leak brings the test's own sentence; any other is described by somebody else.
        whole = arm.degree == "hard" and arm.label == "same"
        words = original.caption if whole else _caption(told, rng)
        return Captioned(
            f"train-{self.strangers + index:06d}",
            data,
            label_of(told),
            words,
            _title(told),
            arm.name,
            original.id,
        )


def label_of(scene: Scene) -> str:
    large = next(item for item in scene.objects if item.size == "large")
    return f"{large.colour} {large.shape}"


def classes() -> list[str]:
    return [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]


def write_test(folder: Path, world: World) -> Path:
    """``images/*.jpg`` and ``test.jsonl`` with id, image, label and caption."""
    refuse_leftovers(folder)
    (folder / "images").mkdir(parents=True)
    lines = []
    for index in range(world.test):
        captioned = world.test_picture(index)
        (folder / f"images/{captioned.id}.jpg").write_bytes(captioned.data)
        row = {"id": captioned.id, "image": f"images/{captioned.id}.jpg"}
        lines.append(json.dumps({**row, "label": captioned.label, "caption": captioned.caption}))
    write_atomic(folder / "test.jsonl", "\n".join(lines) + "\n")
    write_atomic(folder / "templates.txt", "\n".join(TEMPLATES) + "\n")
    return folder / "test.jsonl"


def write_train(folder: Path, world: World) -> Path:
    """Tars of pictures with captions and labels; beside the folder, what leaked where."""
    refuse_leftovers(folder)
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng((world.seed, _COPY)).permutation(world.train)
    truth: list[str] = []
    for shard, start in enumerate(range(0, world.train, _SHARD)):
        path = folder / f"{shard:05d}.tar"
        with (
            replacing(path) as temporary,
            tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for index in order[start : start + _SHARD].tolist():
                captioned = world.train_picture(index)
                for name, data in _members(captioned):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                if captioned.arm:
                    row = {"corpus_id": f"{path.name}/{captioned.id}", "benchmark_id": captioned.of}
                    arm = next(arm for arm in ARMS if arm.name == captioned.arm)
                    truth.append(json.dumps(row | asdict(arm)))
    write_atomic(folder.with_name(f"{folder.name}.truth.jsonl"), "\n".join(truth) + "\n")
    return folder


def _members(captioned: Captioned) -> Iterator[tuple[str, bytes]]:
    yield f"{captioned.id}.jpg", captioned.data
    yield (
        f"{captioned.id}.json",
        json.dumps({"label": captioned.label, "caption": captioned.caption}).encode(),
    )


def scene_with_one_large(rng: np.random.Generator) -> Scene:
    """A scene with exactly one large object: a class that nobody could dispute."""
    while True:
        scene = random_scene(rng)
        if sum(item.size == "large" for item in scene.objects) == 1:
            return scene


def _caption(scene: Scene, rng: np.random.Generator) -> str:
    while "large" not in (words := caption(scene, rng)):
        pass
    return words


def _title(scene: Scene) -> str:
    return f"A large {label_of(scene)} on a {scene.background.tone} background."


def _mislabelled(scene: Scene, rng: np.random.Generator) -> Scene:
    """The scene as somebody describes it who takes its large object for one of another class."""
    place = next(n for n, item in enumerate(scene.objects) if item.size == "large")
    large = scene.objects[place]
    wrong = replace(
        large,
        colour=pick(rng, [one for one in COLOURS if one != large.colour]),
        shape=pick(rng, [one for one in SHAPES if one != large.shape]),
    )
    return replace(scene, objects=(*scene.objects[:place], wrong, *scene.objects[place + 1 :]))


def _saved(picture: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
