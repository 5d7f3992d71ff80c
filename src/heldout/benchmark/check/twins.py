"""Rules about perturbed twins: a new answer needs a new picture.

A twin is found by a column that names its original, by its id (``17_twin``), or as the item of the same id
and question, with another answer, in the benchmark it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.example import Example, canonical_value
from heldout.benchmark.normal import normal
from heldout.image import Digests, FileOnDisk, ImageRef

_LINKS = ("twin_of", "original_id", "orig_id", "perturbed_from", "parent_id", "source_id")
_TWIN_ID = re.compile(r"(.+?)[_-](?:twin|perturbed|perturb|counterfactual|edited|cf)$", re.I)

Pair = tuple[Example, Example]


def twin_rules(benchmark: Benchmark, other: Benchmark | None = None) -> Iterator[Problem]:
    """Twins of items of ``benchmark`` itself or, if given, of ``other``."""
    if other is None:
        pairs = list(_own_pairs(benchmark))
        yield from _unchanged(benchmark, benchmark, pairs, "perturbed twins")
    else:
        pairs = list(_pairs(benchmark, other))
        yield from _unchanged(
            benchmark, other, pairs, f"items whose answer differs from {other.name}"
        )


def _own_pairs(benchmark: Benchmark) -> Iterator[Pair]:
    by_id = {example.id: example for example in benchmark}
    for example in benchmark:
        original = by_id.get(_original_of(example) or "")
        if original is not None and original is not example:
            yield example, original


def _pairs(benchmark: Benchmark, other: Benchmark) -> Iterator[Pair]:
    originals = {example.id: example for example in other}
    for example in benchmark:
        original = originals.get(example.id)
        if (
            original is not None
            and normal(original.question) == normal(example.question)
            and normal(original.answer) != normal(example.answer)
        ):
            yield example, original


def _original_of(example: Example) -> str | None:
    for link in _LINKS:
        if (value := canonical_value(example.metadata.get(link))) is not None:
            return value
    match = _TWIN_ID.fullmatch(example.id)
    return match[1] if match else None


def _unchanged(
    benchmark: Benchmark, other: Benchmark, pairs: Sequence[Pair], which: str
) -> Iterator[Problem]:
    same_names = sum(_names(twin) == _names(original) for twin, original in pairs)
    # Sets that use the same names throughout keep their pictures in folders of their own.
    names_tell = 2 * same_names < len(pairs)
    by_path, by_content = [], []
    for twin, original in pairs:
        if not twin.images or len(twin.images) != len(original.images):
            continue
        couples = list(zip(twin.images, original.images, strict=True))
        if all(_same_file(first, second) for first, second in couples) or (
            names_tell
            and _names(twin) == _names(original)
            and not all(_readable(benchmark, other, couple) for couple in couples)
        ):
            by_path.append(f"{twin.id}: {', '.join(_names(twin))}")
        elif all(_same_content(benchmark, other, couple) for couple in couples):
            by_content.append(
                f"{twin.id}: {', '.join(_names(twin))} is {', '.join(_names(original))}"
            )
    unchanged = [*by_path, *by_content]
    if not unchanged:
        return
    yield problem(
        "twin-keeps-original-image",
        "error",
        f"{len(unchanged):,} of {len(pairs):,} {which} still show the original's picture: "
        f"{len(by_path):,} by its path, {len(by_content):,} by its bytes or pixels",
        "point them at the perturbed picture: the twin test would compare an item with itself",
        unchanged,
        len(pairs),
    )


def _names(example: Example) -> list[str]:
    return [ref.name for ref in example.images]


def _same_file(first: ImageRef, second: ImageRef) -> bool:
    if first.location == second.location:
        return isinstance(first.location, FileOnDisk)
    if isinstance(first.location, FileOnDisk) and isinstance(second.location, FileOnDisk):
        return Path(first.location.path).resolve() == Path(second.location.path).resolve()
    return False


def _readable(benchmark: Benchmark, other: Benchmark, couple: tuple[ImageRef, ImageRef]) -> bool:
    first, second = couple
    found = benchmark.digests[first], other.digests[second]
    return all(isinstance(digests, Digests) for digests in found)


def _same_content(
    benchmark: Benchmark, other: Benchmark, couple: tuple[ImageRef, ImageRef]
) -> bool:
    first, second = benchmark.digests[couple[0]], other.digests[couple[1]]
    return (
        isinstance(first, Digests)
        and isinstance(second, Digests)
        and (first.bytes == second.bytes or first.pixels == second.pixels)
    )
