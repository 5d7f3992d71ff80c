"""Rules about two splits: what of this one is in the other one too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.content import picture_key
from heldout.benchmark.check.problem import Problem, SplitOverlap, problem
from heldout.benchmark.check.twins import twin_rules
from heldout.benchmark.normal import normal
from heldout.image import Digests


def split_overlap(benchmark: Benchmark, other: Benchmark) -> SplitOverlap:
    """Images counted as distinct pictures, questions as items: two denominators, never mixed.

    Flat and unreadable pictures identify nothing and are left out on both sides.
    """
    ours, theirs = _pictures(benchmark), _pictures(other)
    their_bytes = {one for files in theirs.values() for one in files}
    shared = ours.keys() & theirs.keys()
    asked: set[tuple[object, str]] = set()
    answered: set[tuple[object, str, str]] = set()
    for example in other:
        key = picture_key(other, example)
        asked.add((key, normal(example.question)))
        answered.add((key, normal(example.question), normal(example.answer)))
    on_shared = repeated = with_answer = 0
    for example in benchmark:
        pixels = picture_key(benchmark, example)
        if pixels is None or not any(part in shared for part in pixels):
            continue
        on_shared += 1
        question, answer = normal(example.question), normal(example.answer)
        repeated += bool(question) and (pixels, question) in asked
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
    for found in benchmark.digests.values():
        if isinstance(found, Digests) and not found.blank:
            files[found.pixels].add(found.bytes)
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
        found = problem(
            "shared-images",
            "error",
            f"{every} of the {overlap.images:,} images ({shared / overlap.images:.1%}) {verb} also in "
            f"{other.name}: {overlap.images_same_bytes:,} byte for byte, "
            f"{shared - overlap.images_same_bytes:,} more pixel for pixel; "
            f"{overlap.questions_on_shared_images:,} of {overlap.questions:,} questions are about them"
            + (f" ({lost:,} images could not be compared)" if lost else ""),
            "split by image (or patient): a score on this split is not a held-out score",
            names,
            overlap.images,
            "images",
        )
        yield found.model_copy(update={"count": shared})
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
