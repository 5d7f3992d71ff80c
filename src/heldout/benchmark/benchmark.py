"""Benchmark: an ordered list of Examples with a revision and a cluster structure."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from heldout.benchmark.example import Example, canonical_metadata
from heldout.image import Digests, ImageError, ImageRef, byte_digest, digest_image
from heldout.store import Dropped


@dataclass(frozen=True)
class Benchmark:
    name: str
    examples: tuple[Example, ...]
    split: str | None = None
    source: str = ""
    reader: str = ""
    dropped: tuple[Dropped, ...] = ()

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @functools.cached_property
    def images(self) -> tuple[ImageRef, ...]:
        """Every distinct image reference, in order of first appearance."""
        return tuple(dict.fromkeys(ref for example in self.examples for ref in example.images))

    @functools.cached_property
    def digests(self) -> dict[ImageRef, Digests | ImageError]:
        """Exact identity of every image, or why it has none. Each image is read and decoded once."""
        return self.identify()

    def identify(
        self, step: Callable[[], None] = lambda: None
    ) -> dict[ImageRef, Digests | ImageError]:
        """``digests``, calling ``step`` after every image: for work that shows its progress."""
        if "digests" in self.__dict__:
            return self.digests
        found: dict[ImageRef, Digests | ImageError] = {}
        # Threads: decoding and hashing release the interpreter lock.
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for ref, digests in zip(self.images, pool.map(_identify, self.images), strict=True):
                found[ref] = digests
                step()
        self.__dict__["digests"] = found  # where cached_property keeps it
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """Changes when an item's content or the order changes; never with paths, format or machine."""
        hasher = hashlib.sha256(b"heldout-benchmark-1\n")
        for example in self.examples:
            content = [
                example.id,
                [self._content(ref) for ref in example.images],
                example.question,
                list(example.options),
                example.answer,
                example.answer_index,
                example.cluster,
                canonical_metadata(example.metadata),
            ]
            hasher.update(json.dumps(content, ensure_ascii=False).encode() + b"\n")
        return hasher.hexdigest()

    @functools.cached_property
    def clusters(self) -> tuple[str, ...]:
        """For every item the group it shares an image, a patient or a slide with."""
        return tuple(example.cluster or self._image_cluster(example) for example in self.examples)

    @property
    def cluster_key(self) -> str:
        return "column" if any(example.cluster for example in self.examples) else "image"

    def cluster_sizes(self) -> Counter[str]:
        return Counter(self.clusters)

    def _content(self, ref: ImageRef) -> str:
        found = self.digests[ref]
        if isinstance(found, Digests):
            return found.bytes
        try:
            return byte_digest(ref.read())  # undecodable bytes are content too
        except ImageError:
            return f"missing:{ref.name}"

    def _image_cluster(self, example: Example) -> str:
        """Items that show the same pixels belong together, whatever their files are called."""
        if not example.images:
            return f"item:{example.id}"
        found = self.digests[example.images[0]]
        return found.pixels if isinstance(found, Digests) else f"image:{example.images[0].name}"


def _identify(ref: ImageRef) -> Digests | ImageError:
    try:
        return digest_image(ref)
    except ImageError as error:
        return error
