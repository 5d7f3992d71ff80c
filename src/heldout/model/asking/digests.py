"""What names a picture in the key of a prompt: its content, so that a changed picture is another prompt."""

from __future__ import annotations

from collections.abc import Callable

from heldout.benchmark import Benchmark
from heldout.image import Digests, ImageError, ImageRef, byte_digest


def picture_digest(*benchmarks: Benchmark) -> Callable[[ImageRef], str]:
    """A picture's content; one that cannot be read is known by its name, and never asked."""

    def digest(ref: ImageRef) -> str:
        for benchmark in benchmarks:
            found = benchmark.digests.get(ref)
            if isinstance(found, Digests):
                return found.bytes
        try:
            return byte_digest(ref.read())
        except ImageError:
            return f"missing:{ref.name}"

    return digest
