"""A corpus of the benchmark's own world with planted leaks, and a truth file that knows each one.

Shards are WebDataset tars whose bytes depend on the seed alone. The truth lies beside the folder of
tars, never in it, so that nothing that reads the corpus can read the answer.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from heldout.errors import InputError
from heldout.image import decode, native_size, pixel_digest
from heldout.scenes.benchmark import CORPUS_STREAM, IMAGE_SIZE, WrittenBenchmark, refuse_leftovers
from heldout.scenes.captions import caption
from heldout.scenes.leaks import KINDS, Kind, Sample, Target, encode, question_and_answer
from heldout.scenes.questions import ask
from heldout.scenes.render import render
from heldout.scenes.world import pick, random_scene
from heldout.store.atomic import replacing, write_atomic

_SIZES = (96, 112, 128, 160, IMAGE_SIZE)
_TRIES = 10
_PLAN = 2**32 - 1  # the index of the generator that decides what is planted where


@dataclass(frozen=True, slots=True)
class Truth:
    """What one planted or broken item of the corpus really is."""

    corpus_id: str  # as the corpus reader names it: "00002.tar/000123"
    kind: str
    group: str  # leak, blind spot, decoy, broken
    found_by: str | None  # bytes, pixels, or None where exact matching must find nothing
    label_relation: str | None
    image: str | None  # the benchmark's name of the picture
    benchmark_id: str | None  # the item whose question came along


@dataclass(frozen=True)
class WrittenCorpus:
    folder: Path
    truth_file: Path
    items: int
    shards: int
    truth: tuple[Truth, ...]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(row.kind for row in self.truth)


def write_corpus(
    folder: str | Path,
    benchmark: WrittenBenchmark,
    *,
    items: int = 1500,
    seed: int = 0,
    shard_size: int = 300,
) -> WrittenCorpus:
    """Write ``items`` samples in shards, leaks of every kind among them, and the truth beside."""
    folder = Path(folder)
    refuse_leftovers(folder)
    files = {image: (benchmark.folder / image).read_bytes() for image in benchmark.scenes}
    protected = _Protected(files)
    plan = _plan(benchmark, files, items, np.random.default_rng((seed, CORPUS_STREAM, _PLAN)))
    truth: list[Truth] = []
    shards = math.ceil(items / shard_size)
    for shard in range(shards):
        path = folder / f"{shard:05d}.tar"
        with (
            replacing(path) as temporary,
            tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for index in range(shard * shard_size, min(items, (shard + 1) * shard_size)):
                rng = np.random.default_rng((seed, CORPUS_STREAM, index))
                key = f"{index:06d}"
                planted = plan.get(index)
                if planted is not None:
                    truth.append(planted.truth(f"{path.name}/{key}"))
                _add(
                    tar,
                    key,
                    planted.sample(rng, protected) if planted else _stranger(rng, protected),
                )
    truth_file = folder.with_name(f"{folder.name}.truth.jsonl")
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in truth]
    write_atomic(truth_file, "\n".join(lines) + "\n")
    return WrittenCorpus(folder, truth_file, items, shards, tuple(truth))


class _Protected:
    """The benchmark's pictures, to keep out of the corpus whatever was not planted."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.sizes = {native_size(data) for data in files.values()}
        self.pixels = {pixel_digest(decode(data)) for data in files.values()}

    def holds(self, data: bytes) -> bool:
        # Pictures of another size have other pixels: no need to decode them.
        return native_size(data) in self.sizes and pixel_digest(decode(data)) in self.pixels


@dataclass(frozen=True)
class _Leak:
    kind: Kind
    target: Target

    def sample(self, rng: np.random.Generator, protected: _Protected) -> Sample:
        if self.kind.found_by is not None:
            return self.kind.make(self.target, rng)
        return _distinct(lambda: self.kind.make(self.target, rng), protected)

    def truth(self, corpus_id: str) -> Truth:
        kind, target = self.kind, self.target
        item = target.item_id if kind.label_relation else None
        return Truth(
            corpus_id, kind.name, kind.group, kind.found_by, kind.label_relation, target.image, item
        )


@dataclass(frozen=True)
class _Broken:
    kind: str

    def sample(self, rng: np.random.Generator, protected: _Protected) -> Sample:
        return _BROKEN[self.kind](rng)

    def truth(self, corpus_id: str) -> Truth:
        return Truth(corpus_id, self.kind, "broken", None, None, None, None)


def _plan(
    benchmark: WrittenBenchmark, files: Mapping[str, bytes], items: int, rng: np.random.Generator
) -> dict[int, _Leak | _Broken]:
    """Which item of the corpus is what. Each picture leaks once, as long as there are enough."""
    names = list(files)
    order = [names[index] for index in rng.permutation(len(names))]
    planted: list[_Leak | _Broken] = []
    for kind in KINDS:
        for _ in range(max(1, round(kind.share * len(names)))):
            image = order[len(planted) % len(order)]
            item_id, question = pick(rng, benchmark.questions[image])
            target = Target(image, files[image], benchmark.scenes[image], item_id, question)
            planted.append(_Leak(kind, target))
    for broken in _BROKEN:
        planted += [_Broken(broken)] * max(1, items // 500)
    if len(planted) > items:
        raise InputError(
            f"items={items}: {len(planted)} leaks and broken files are planted for a benchmark of "
            f"{len(names)} images, and the corpus must hold at least as many items"
        )
    places = rng.permutation(items)[: len(planted)].tolist()
    return dict(zip(places, planted, strict=True))


def _stranger(rng: np.random.Generator, protected: _Protected) -> Sample:
    """A captioned picture of the same world that the benchmark does not hold."""

    def make() -> Sample:
        scene = random_scene(rng)
        picture = render(scene, pick(rng, _SIZES))
        luck = rng.random()
        if luck < 0.78:
            extension, data = "jpg", encode(picture, "jpg", quality=int(rng.integers(75, 96)))
        elif luck < 0.92:
            extension, data = "webp", encode(picture, "webp", quality=85, method=0)
        else:
            extension, data = "png", encode(picture, "png", compress_level=3)
        asked = ask(scene, rng, count=1) if rng.random() < 0.25 else []
        metadata = question_and_answer(asked[0]) if asked else None
        return Sample(extension, data, caption(scene, rng), metadata)

    return _distinct(make, protected)


def _distinct(make: Callable[[], Sample], protected: _Protected) -> Sample:
    """A sample that shows none of the protected pictures, checked on the decoded pixels."""
    for _ in range(_TRIES):
        sample = make()
        if not protected.holds(sample.data):
            return sample
    raise RuntimeError(f"{_TRIES} drawn samples in a row equal a picture of the benchmark")


def _truncated(rng: np.random.Generator) -> Sample:
    scene = random_scene(rng)
    data = encode(render(scene), "png")
    return Sample("png", data[: len(data) // 2], caption(scene, rng))


def _error_page(rng: np.random.Generator) -> Sample:
    page = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body></body></html>\n"
    return Sample("jpg", page, caption(random_scene(rng), rng))


def _nothing(rng: np.random.Generator) -> Sample:
    return Sample("jpg", b"", caption(random_scene(rng), rng))


_BROKEN: dict[str, Callable[[np.random.Generator], Sample]] = {
    "truncated PNG": _truncated,
    "HTML named .jpg": _error_page,
    "zero bytes": _nothing,
}


def _add(tar: tarfile.TarFile, key: str, sample: Sample) -> None:
    members = {sample.extension: sample.data}
    if sample.caption is not None:
        members["txt"] = sample.caption.encode()
    if sample.metadata is not None:
        members["json"] = json.dumps(sample.metadata, ensure_ascii=False).encode()
    for extension, data in members.items():
        member = tarfile.TarInfo(f"{key}.{extension}")  # time, owner and mode: constants
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
