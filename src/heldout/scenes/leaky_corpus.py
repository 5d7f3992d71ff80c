"""A corpus of the benchmark's own world with planted leaks, and a truth file that lists each one.

Shards are WebDataset tars whose bytes depend on the seed alone. The truth lies beside the folder of
tars, never in it, so that nothing that reads the corpus can read the answer.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from heldout.errors import InputError
from heldout.image import decode, native_size, pixel_digest
from heldout.scenes.benchmark import CORPUS_STREAM, refuse_leftovers
from heldout.scenes.leak_kinds import BY_QUESTION, KINDS, REWORDED_ALONE, told_apart
from heldout.scenes.leaks import (
    BYTES,
    PIXELS,
    SCENES,
    CorpusSample,
    Leaking,
    LeakKind,
    LeakWorld,
    Target,
    encode,
    question_and_answer,
    stranger,
)
from heldout.scenes.world import pick
from heldout.store import replacing, write_atomic

_TRIES = 10
_PLAN = 2**32 - 1  # the index of the generator that decides what is planted where


@dataclass(frozen=True, slots=True)
class Truth:
    """What one planted or broken item of the corpus really is."""

    corpus_id: str  # as the corpus reader names it: "00002.tar/000123"
    kind: str
    group: str  # leak, blind spot, decoy, broken
    found_by: str | None  # how its picture can be found: bytes, pixels, near, or None: not at all
    label_relation: str | None
    image: str | None  # the benchmark's name of the picture
    benchmark_id: str | None  # the item whose question came along, or that a decoy was made from
    words: str | None = None  # how its question can be found: exact, reworded, or None: not at all
    detail: str = ""  # what was drawn: "quality 83", "by 14° on white"


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
    benchmark: Leaking,
    *,
    items: int = 1500,
    seed: int = 0,
    shard_size: int = 300,
    world: LeakWorld = SCENES,
    each: int | None = None,
    reworded: int = 0,
) -> WrittenCorpus:
    """Write ``items`` samples in shards, leaks of every kind among them, and the truth beside.

    ``each``: plant this many of every kind, and not every kind's share of the benchmark's pictures.
    ``reworded``: plant this many reworded questions that the benchmark asks of no other picture (fewer where there are
    not so many), and ``each`` of those that it asks of several, with an answer of their own and without.
    """
    folder = Path(folder)
    refuse_leftovers(folder)
    files = {image: (benchmark.folder / image).read_bytes() for image in benchmark.scenes}
    protected = _Protected(files)
    rng = world.rng(seed, CORPUS_STREAM, _PLAN)
    plan = _plan(benchmark, files, items, world, each, reworded, rng)
    truth: list[Truth] = []
    shards = math.ceil(items / shard_size)
    for shard in range(shards):
        path = folder / f"{shard:05d}.tar"
        with (
            replacing(path) as temporary,
            tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for index in range(shard * shard_size, min(items, (shard + 1) * shard_size)):
                rng = world.rng(seed, CORPUS_STREAM, index)
                key = f"{index:06d}"
                planted = plan.get(index)
                if planted is None:
                    _add(tar, key, _stranger(world, rng, protected))
                    continue
                sample = planted.sample(rng, protected)
                _add(tar, key, sample)
                truth.append(planted.truth(f"{path.name}/{key}", sample))
    truth_file = folder.with_name(f"{folder.name}.truth.jsonl")
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in truth]
    write_atomic(truth_file, "\n".join(lines) + "\n")
    return WrittenCorpus(folder, truth_file, items, shards, tuple(truth))


class _Protected:
    """The benchmark's pictures, to keep out of the corpus whatever was not planted."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.sizes = {native_size(data) for data in files.values()}
        self.pixels = {pixel_digest(decode(data)) for data in files.values()}

    def holds(self, data: bytes | None) -> bool:
        # Pictures of another size have other pixels: no need to decode them.
        if data is None or native_size(data) not in self.sizes:
            return False
        return pixel_digest(decode(data)) in self.pixels


@dataclass(frozen=True)
class _Leak:
    kind: LeakKind
    target: Target

    def sample(self, rng: np.random.Generator, protected: _Protected) -> CorpusSample:
        if self.kind.found_by in (BYTES, PIXELS):
            return self.kind.make(self.target, rng)
        return _distinct(lambda: self.kind.make(self.target, rng), protected)

    def truth(self, corpus_id: str, sample: CorpusSample) -> Truth:
        kind, target = self.kind, self.target
        return Truth(
            corpus_id,
            kind.name,
            kind.group,
            kind.found_by,
            kind.label_relation,
            target.image,
            target.item_id if sample.metadata is not None else None,
            kind.words,
            sample.detail,
        )


@dataclass(frozen=True)
class _Broken:
    kind: str
    world: LeakWorld

    def sample(self, rng: np.random.Generator, protected: _Protected) -> CorpusSample:
        return _BROKEN[self.kind](self.world, rng)

    def truth(self, corpus_id: str, sample: CorpusSample) -> Truth:
        return Truth(corpus_id, self.kind, "broken", None, None, None, None)


def _plan(
    benchmark: Leaking,
    files: Mapping[str, bytes],
    items: int,
    world: LeakWorld,
    each: int | None,
    reworded: int,
    rng: np.random.Generator,
) -> dict[int, _Leak | _Broken]:
    """Which item of the corpus is what. Each picture leaks once, as long as there are enough."""
    names = list(files)
    order = [names[index] for index in rng.permutation(len(names))]
    planted: list[_Leak] = []
    for kind in KINDS:
        # The least of a share and a hair: a third of sixty may be 19.999 in floats.
        count = max(1, math.floor(kind.share * len(names) + 1e-9)) if each is None else each
        for _ in range(count):
            image = order[len(planted) % len(order)]
            item_id, question = pick(rng, benchmark.questions[image])
            scene = benchmark.scenes[image]
            target = Target(image, files[image], scene, item_id, question, world)
            planted.append(_Leak(kind, target))
    if reworded:
        planted = [leak for leak in planted if leak.kind not in REWORDED_ALONE.values()]
        taken = {leak.target.item_id for leak in planted}
        planted += _reworded(
            benchmark, files, world, {BY_QUESTION: reworded}, each or 1, taken, rng
        )
    planted_in_all: list[_Leak | _Broken] = [*planted]
    for broken in _BROKEN:
        planted_in_all += [_Broken(broken, world)] * max(1, items // 500)
    if len(planted_in_all) > items:
        raise InputError(
            f"items={items}: {len(planted_in_all)} leaks and broken files are planted for a benchmark of "
            f"{len(names)} images, and the corpus must hold at least as many items"
        )
    places = rng.permutation(items)[: len(planted_in_all)].tolist()
    return dict(zip(places, planted_in_all, strict=True))


def _reworded(
    benchmark: Leaking,
    files: Mapping[str, bytes],
    world: LeakWorld,
    counts: Mapping[str, int],
    each: int,
    taken: Collection[str],
    rng: np.random.Generator,
) -> list[_Leak]:
    """Reworded questions by what tells their items apart: ``counts`` of them, else ``each``. Each is about another
    picture, and none is of an item that was ``taken``."""
    asked = [
        (image, item, question)
        for image, questions in benchmark.questions.items()
        for item, question in questions
    ]
    apart = told_apart(
        (item, image, question.question, question.answer) for image, item, question in asked
    )
    leaks: list[_Leak] = []
    for by, kind in REWORDED_ALONE.items():
        here = [row for row in asked if apart[row[1]] == by and row[1] not in taken]
        shuffled = [here[place] for place in rng.permutation(len(here)).tolist()]
        of_pictures = {image: (item, question) for image, item, question in shuffled}
        for image, (item, question) in list(of_pictures.items())[: counts.get(by, each)]:
            target = Target(image, files[image], benchmark.scenes[image], item, question, world)
            leaks.append(_Leak(kind, target))
    return leaks


def _stranger(world: LeakWorld, rng: np.random.Generator, protected: _Protected) -> CorpusSample:
    """A captioned picture of the same world that the benchmark does not hold."""

    def make() -> CorpusSample:
        thing = world.draw(rng)
        extension, data = stranger(world, thing, rng)
        asked = world.ask(thing, rng, 1) if rng.random() < 0.25 else []
        metadata = question_and_answer(asked[0]) if asked else None
        return CorpusSample(extension, data, world.caption(thing, rng), metadata)

    return _distinct(make, protected)


def _distinct(make: Callable[[], CorpusSample], protected: _Protected) -> CorpusSample:
    """A sample that shows none of the protected pictures, checked on the decoded pixels."""
    for _ in range(_TRIES):
        sample = make()
        if not protected.holds(sample.data):
            return sample
    raise RuntimeError(f"{_TRIES} drawn samples in a row equal a picture of the benchmark")


def _truncated(world: LeakWorld, rng: np.random.Generator) -> CorpusSample:
    thing = world.draw(rng)
    data = encode(world.render(thing, 224), "png")
    return CorpusSample("png", data[: len(data) // 2], world.caption(thing, rng))


def _error_page(world: LeakWorld, rng: np.random.Generator) -> CorpusSample:
    page = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body></body></html>\n"
    return CorpusSample("jpg", page, world.caption(world.draw(rng), rng))


def _nothing(world: LeakWorld, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("jpg", b"", world.caption(world.draw(rng), rng))


_BROKEN: dict[str, Callable[[LeakWorld, np.random.Generator], CorpusSample]] = {
    "truncated PNG": _truncated,
    "HTML named .jpg": _error_page,
    "zero bytes": _nothing,
}


def _add(tar: tarfile.TarFile, key: str, sample: CorpusSample) -> None:
    members = {} if sample.data is None else {sample.extension: sample.data}
    if sample.caption is not None:
        members["txt"] = sample.caption.encode()
    if sample.metadata is not None:
        members["json"] = json.dumps(sample.metadata, ensure_ascii=False).encode()
    for extension, data in members.items():
        member = tarfile.TarInfo(f"{key}.{extension}")  # time, owner and mode: constants
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
