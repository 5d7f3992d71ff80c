"""Read back what was written, and say wherever it is not what it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heldout.benchmark import Benchmark, Example, canonical_metadata
from heldout.image import Digests, ImageRef

_SHOWN = 20


@dataclass(frozen=True)
class RoundTrip:
    written: Benchmark
    differences: tuple[str, ...]  # empty where every kept item reads as it did
    renamed: int  # items without an id of their own are called by their row, which changed

    @property
    def ids(self) -> list[str]:
        return [example.id for example in self.written]


def compare(originals: Sequence[Example], source: Benchmark, written: Benchmark) -> RoundTrip:
    """``originals`` are the examples of ``source`` that were to be written, in order."""
    digests = source.digests.values()
    written.identify(
        known={digest.bytes: digest for digest in digests if isinstance(digest, Digests)}
    )
    if len(originals) != len(written):
        message = f"{len(originals):,} items were written, {len(written):,} are read back"
        return RoundTrip(written, (message,), 0)
    differences: list[str] = []
    renamed = 0
    for before, after in zip(originals, written, strict=True):
        renamed += before.id != after.id
        changed = [
            name
            for name in ("question", "options", "answer", "answer_index", "cluster")
            if getattr(before, name) != getattr(after, name)
        ]
        if canonical_metadata(before.metadata) != canonical_metadata(after.metadata):
            changed.append("metadata")
        if _shown(before, source) != _shown(after, written):
            changed.append("images")
        if changed:
            differences.append(f"{before.id}: {', '.join(changed)} reads otherwise")
    if len(differences) > _SHOWN:
        more = len(differences) - _SHOWN
        differences = [*differences[:_SHOWN], f"and {more:,} more items"]
    return RoundTrip(written, tuple(differences), renamed)


def pictures(examples: Sequence[Example], benchmark: Benchmark) -> set[str]:
    """What distinct pictures items show: by pixels, by name where nobody can decode one."""
    return {_picture(ref, benchmark) for example in examples for ref in example.images}


def _picture(ref: ImageRef, benchmark: Benchmark) -> str:
    digest = benchmark.digests[ref]
    return digest.pixels if isinstance(digest, Digests) else f"image:{ref.name}"


def _shown(example: Example, benchmark: Benchmark) -> list[str]:
    digests = [benchmark.digests[ref] for ref in example.images]
    return [digest.bytes if isinstance(digest, Digests) else digest.reason for digest in digests]
