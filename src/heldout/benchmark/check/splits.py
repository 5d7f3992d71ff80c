"""Rules about two splits: what they share."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from heldout.benchmark.benchmark import Benchmark, Example, canonical_value, normal
from heldout.benchmark.check.content import picture_key
from heldout.benchmark.check.problem import Problem, SplitOverlap, problem
from heldout.errors import percent
from heldout.image import Digests, FileOnDisk, ImageRef

# Rules about perturbed twins: a new answer needs a new picture.
#
# A twin is found by a column that names its original, by its id (``17_twin``), or as the item of the same
# id and question, with another answer, in the benchmark it was made of.


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
    both = benchmark.digests[first], other.digests[second]
    return all(isinstance(digests, Digests) for digests in both)


def _same_content(
    benchmark: Benchmark, other: Benchmark, couple: tuple[ImageRef, ImageRef]
) -> bool:
    first, second = benchmark.digests[couple[0]], other.digests[couple[1]]
    return (
        isinstance(first, Digests)
        and isinstance(second, Digests)
        and (first.bytes == second.bytes or first.pixels == second.pixels)
    )


def split_overlap(benchmark: Benchmark, other: Benchmark) -> SplitOverlap:
    """Images counted as distinct pictures, questions as items: two denominators, never mixed.

    Flat and unreadable pictures identify nothing and are left out on both sides.
    """
    ours, theirs = _pictures(benchmark), _pictures(other)
    their_bytes = {file for files in theirs.values() for file in files}
    shared = ours.keys() & theirs.keys()
    pairs: set[tuple[object, str]] = set()
    answered: set[tuple[object, str, str]] = set()
    for example in other:
        key = picture_key(other, example)
        pairs.add((key, normal(example.question)))
        answered.add((key, normal(example.question), normal(example.answer)))
    on_shared = repeated = with_answer = 0
    for example in benchmark:
        pixels = picture_key(benchmark, example)
        if pixels is None or not any(part in shared for part in pixels):
            continue
        on_shared += 1
        question, answer = normal(example.question), normal(example.answer)
        repeated += bool(question) and (pixels, question) in pairs
        with_answer += bool(question) and (pixels, question, answer) in answered
    return SplitOverlap(
        other=other.name,
        images=len(ours),
        images_not_compared=len(benchmark.images) - _usable(benchmark),
        images_same_bytes=sum(bool(files & their_bytes) for files in ours.values()),
        images_same_pixels=len(shared),
        questions=len(benchmark),
        questions_on_shared_images=on_shared,
        questions_repeated=repeated,
        questions_repeated_with_answer=with_answer,
    )


def _pictures(benchmark: Benchmark) -> dict[str, set[str]]:
    """The files (by byte digest) of every picture (by pixel digest) that identifies anything."""
    files: dict[str, set[str]] = defaultdict(set)
    for digest in benchmark.digests.values():
        if isinstance(digest, Digests) and not digest.blank:
            files[digest.pixels].add(digest.bytes)
    return files


def _usable(benchmark: Benchmark) -> int:
    return sum(isinstance(d, Digests) and not d.blank for d in benchmark.digests.values())


def split_rules(benchmark: Benchmark, other: Benchmark, overlap: SplitOverlap) -> Iterator[Problem]:
    shared = overlap.images_same_pixels
    if shared:
        lost = overlap.images_not_compared
        pixels = {d.pixels for d in other.digests.values() if isinstance(d, Digests)}
        names = [
            ref.name
            for ref, d in benchmark.digests.items()
            if isinstance(d, Digests) and d.pixels in pixels and not d.blank
        ]
        complete = shared == overlap.images and shared > 1
        every = "every one" if complete else f"{shared:,}"
        verb = "is" if shared == 1 or complete else "are"
        finding = problem(
            "shared-images",
            "error",
            f"{every} of the {overlap.images:,} images ({percent(shared / overlap.images)}) {verb} also in "
            f"{other.name}: {overlap.images_same_bytes:,} byte for byte, "
            f"{shared - overlap.images_same_bytes:,} more pixel for pixel; "
            f"{overlap.questions_on_shared_images:,} of {overlap.questions:,} questions are about them"
            + (f" ({lost:,} images could not be compared)" if lost else ""),
            "split by image (or patient): a score on this split is not a held-out score",
            names,
            overlap.images,
            "images",
        )
        yield finding.model_copy(update={"count": shared})
    if overlap.questions_repeated:
        yield problem(
            "shared-questions",
            "error",
            f"{overlap.questions_repeated:,} of {overlap.questions:,} questions are asked of the same "
            f"picture in {other.name}, {overlap.questions_repeated_with_answer:,} with the same answer",
            "remove them: the answer itself is in the other split"
            if overlap.questions_repeated_with_answer
            else "settle which answer is right: the same question about the same picture has another one "
            "in the other split",
            [],
            overlap.questions,
        ).model_copy(update={"count": overlap.questions_repeated})
    yield from twin_rules(benchmark, other)
