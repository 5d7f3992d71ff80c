"""Canaries into a benchmark: the file to release, its pictures, and the key to keep."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.cure._files import atomic_folder, compare
from heldout.cure.canary import (
    Canary,
    CanaryKey,
    CanarySettings,
    false_positive_probability,
)
from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, to_rgb
from heldout.store import write_atomic

RELEASE = "test.jsonl"
CELLS = 6  # of a mark, along each side
SHARE = 8  # of a picture's short side that a mark takes: one in so many
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
Rng = np.random.Generator


@dataclass(frozen=True)
class PlantedCanaries:
    """What ``heldout.canary`` returns: the benchmark to release, and the key to keep."""

    source: Path
    key_file: Path
    key: CanaryKey
    #: items of the benchmark that read otherwise in the new file
    differences: tuple[str, ...] = ()

    @property
    def benchmark(self) -> Benchmark:
        return read_benchmark(self.source)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": str(self.source),
            "key": str(self.key_file),
            "digest": self.key.digest,
            "items": len(self.key.items),
            "marks": {mark: len(group) for mark, group in self.key.marks.items()},
            "options": self.key.options,
            "least_p": false_positive_probability(
                len(self.key.items),
                len(self.key.items),
                len(self.key.marks),
                len(self.key.marks),
                self.key.options,
            ),
            "differences": list(self.differences),
        }

    def __repr__(self) -> str:
        return f"<Canaries: {len(self.key.canaries):,} planted, {self.source}, key {self.key_file}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"


def plant_canaries(
    benchmark: Benchmark | str | Path,
    *,
    out: str | Path,
    key: str | Path | None = None,
    settings: CanarySettings | None = None,
    quiet: bool = False,
    **values: Any,
) -> PlantedCanaries:
    """Write a benchmark with canaries among its items, and the key that lists them.

    Args:
        benchmark: The benchmark, or where it is read from.
        out: New folder, which is released: ``test.jsonl`` and its pictures.
        key: File for the key, which is kept; default: ``out`` with ``.key.json`` after it.
        settings: All settings; or give them by name as further arguments.
        quiet: Show no progress.
        **values: Fields of ``heldout.cure.CanarySettings``.

    Returns:
        Where both are. The digest of the key is to be published with the benchmark.
    """
    chosen = CanarySettings.choose(settings, values)
    source = benchmark if isinstance(benchmark, Benchmark) else read_benchmark(benchmark)
    folder = Path(out)
    key_file = Path(key) if key is not None else folder.with_name(f"{folder.name}.key.json")
    if key_file.exists():
        raise InputError(
            f"key {key_file}: it exists; a key is never written over. Name another file"
        )
    if key_file.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"key {key_file}: it would be released with {folder}; name a file elsewhere"
        )
    seed = secrets.randbits(128) if chosen.seed is None else chosen.seed
    rng = np.random.default_rng(list(hashlib.sha256(f"content {seed}".encode()).digest()))
    pictured = [example for example in source if example.images]
    if chosen.marks and not pictured:
        raise InputError(
            "marks: the benchmark has no pictures to mark; plant random-choice items alone"
        )
    with atomic_folder(folder) as building:
        writer = _Writer(building, many=any(len(example.images) > 1 for example in source))
        with progress("copying pictures", len(source), "items", disabled=quiet) as step:
            rows = []
            for example in source:
                rows.append(writer.row(example, [writer.copy(ref) for ref in example.images]))
                step()
        canaries, planted = _planted(source, pictured, chosen, seed, rng, writer)
        where = sorted(int(place) for place in rng.integers(0, len(rows) + 1, len(planted)))
        for number, (place, row) in enumerate(zip(where, planted, strict=True)):
            rows.insert(place + number, row)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomic(building / RELEASE, text)
        ids = {canary.id for canary in canaries}
        written = read_benchmark(building / RELEASE)
        kept = replace(written, examples=tuple(e for e in written if e.id not in ids))
        differences = compare(list(source), source, kept).differences
        lost = ids - {example.id for example in written}
        if lost:
            raise InputError(f"{len(lost)} planted items cannot be read back: {min(lost)}")
    released = hashlib.sha256(text.encode()).hexdigest()
    secret = CanaryKey(source.name, seed, chosen.options, released, tuple(canaries))
    secret.write(key_file)
    key_file.chmod(0o600)
    return PlantedCanaries(folder / RELEASE, key_file, secret, differences)


def _planted(
    source: Benchmark,
    pictured: Sequence[Example],
    settings: CanarySettings,
    seed: int,
    rng: Rng,
    writer: _Writer,
) -> tuple[list[Canary], list[dict[str, Any]]]:
    """Canaries and their rows, in random order. What is drawn here is released; right places are not."""
    taken = {example.id for example in source}
    words: set[str] = set()
    marks: list[int | None] = [None] * settings.items
    marks += [mark for mark in range(settings.marks) for _ in range(settings.per_mark)]
    patterns = [_pattern(rng) for _ in range(settings.marks)]
    corners = [tuple(rng.integers(0, 2, 2)) for _ in range(settings.marks)]
    hosts = pictured or list(source)
    canaries, rows = [], []
    for number in rng.permutation(len(marks)):
        mark = marks[number]
        host = hosts[int(rng.integers(len(hosts)))]
        name = _like(host.id, rng, taken)
        options = tuple(_word(rng, words) for _ in range(settings.options))
        target = Canary(name, options, 0, mark).drawn(seed)
        pictures = [writer.copy(ref) for ref in host.images]
        if mark is not None:
            pictures = [writer.marked(host.images[0], patterns[mark], corners[mark]), *pictures[1:]]
        example = Example(
            id=name,
            question=f"Which code was given to {_word(rng, words)} {_word(rng, words)}?",
            options=options,
            answer=options[target],
            answer_index=target,
            cluster=host.cluster,
            metadata=host.metadata,
        )
        canaries.append(Canary(name, options, target, mark))
        rows.append(writer.row(example, pictures))
    return canaries, rows


class _Writer:
    """Rows of the released file, and the pictures beside it."""

    def __init__(self, folder: Path, *, many: bool) -> None:
        self._folder, self._many = folder, many
        (folder / "images").mkdir()

    def copy(self, ref: ImageRef) -> str:
        """The original bytes, under a name that tells nothing."""
        try:
            data = ref.read()
        except ImageError as error:
            raise InputError(
                f"{ref.source}: it cannot be read ({error}); repair or remove it"
            ) from error
        return self._save(data, Path(ref.name).suffix.lower() or ".png")

    def marked(self, ref: ImageRef, pattern: Any, corner: tuple[int, ...]) -> str:
        picture = to_rgb(ref.open())
        cell = max(1, min(picture.size) // (SHARE * CELLS))
        side = min(cell * CELLS, *picture.size)
        stamp = np.kron(pattern, np.ones((cell, cell, 1), dtype=np.uint8))[:side, :side]
        pixels = np.asarray(picture).copy()
        top = (pixels.shape[0] - side) * corner[0]
        left = (pixels.shape[1] - side) * corner[1]
        pixels[top : top + side, left : left + side] = stamp
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        return self._save(buffer.getvalue(), ".png")

    def _save(self, data: bytes, ending: str) -> str:
        name = f"images/{hashlib.sha256(data).hexdigest()[:16]}{ending}"
        path = self._folder / name
        if not path.exists():
            path.write_bytes(data)
        return name

    def row(self, example: Example, pictures: Sequence[str]) -> dict[str, Any]:
        own: dict[str, Any] = {"id": example.id}
        if self._many:
            own["images"] = list(pictures)
        elif pictures:
            own["image"] = pictures[0]
        own |= {"question": example.question, "options": list(example.options)}
        own["answer"] = example.answer
        if example.cluster is not None:
            own["cluster"] = example.cluster
        return {**{k: v for k, v in example.metadata.items() if k not in own}, **own}


def _pattern(rng: Rng) -> Any:
    colours = rng.integers(0, 256, (3, 3), dtype=np.uint8)
    return colours[rng.integers(0, 3, (CELLS, CELLS))]


def _word(rng: Rng, taken: set[str]) -> str:
    """A word of no language that no other canary has."""
    while True:
        parts = [
            _CONSONANTS[int(rng.integers(len(_CONSONANTS)))] + _VOWELS[int(rng.integers(5))]
            for _ in range(4)
        ]
        word = "".join(parts)
        if word not in taken:
            taken.add(word)
            return word


def _like(name: str, rng: Rng, taken: set[str]) -> str:
    """A new id that looks like this one: digits for digits, letters for letters."""
    for length in range(64):
        text = name + "0" * (length // 4)  # short ids may all be taken
        drawn = "".join(
            str(rng.integers(10))
            if character.isdigit()
            else chr(ord("a") + int(rng.integers(26)))
            if character.islower()
            else character
            for character in text
        )
        if drawn not in taken:
            taken.add(drawn)
            return drawn
    raise InputError(f"no free id looks like {name!r}: give the items longer ids")
