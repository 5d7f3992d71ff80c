"""Benchmark: an ordered list of Examples with a revision and a cluster structure."""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from heldout.benchmark.example import Example, canonical_metadata, canonical_text
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
    repeated_ids: tuple[str, ...] = ()  # items whose id occurred before, as they are called now
    taken_for: tuple[str, ...] = ()  # files that name no columns: what each was taken for
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  # what read_benchmark was told besides

    def __repr__(self) -> str:
        split = f", split {self.split}" if self.split else ""
        return (
            f"Benchmark({self.name!r}{split}: {len(self):,} items on {len(self.images):,} images)"
        )

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
        self,
        step: Callable[[], None] = lambda: None,
        known: Mapping[str, Digests] | None = None,
    ) -> dict[ImageRef, Digests | ImageError]:
        """``digests``, calling ``step`` after every image: for work that shows its progress.

        Images whose bytes are among the ``known`` (by byte digest) are not decoded once more.
        """
        if "digests" in self.__dict__:
            return self.digests
        from heldout.engine import usable_cores  # loads rich, which scoring machines may lack

        record: dict[ImageRef, Digests | ImageError] = {}
        one = functools.partial(_identify, known or {})
        # Threads: decoding and hashing release the interpreter lock.
        with ThreadPoolExecutor(usable_cores()) as pool:
            for ref, digests in zip(self.images, pool.map(one, self.images), strict=True):
                record[ref] = digests
                step()
        self.__dict__["digests"] = record  # where cached_property keeps it
        return record

    @functools.cached_property
    def fingerprint(self) -> str:
        """Changes when an item's content or the order changes; never with paths, format or machine."""
        hasher = hashlib.sha256(b"heldout-benchmark-1\n")
        for example in self.examples:
            content = [
                canonical_text(example.id),
                [self._content(ref) for ref in example.images],
                example.question,
                list(example.options),
                canonical_text(example.answer),
                example.answer_index,
                example.cluster,
                canonical_metadata(example.metadata),
            ]
            hasher.update(json.dumps(content, ensure_ascii=False).encode() + b"\n")
        return hasher.hexdigest()

    @functools.cached_property
    def clusters(self) -> tuple[str, ...]:
        """For every item the group it belongs to: items that share a picture or a patient.

        Any shared picture joins two items, not the first one alone, and so does an equal value of
        the cluster column; a row whose value is empty stays with the pictures it shows.
        """
        parent: dict[str, str] = {}

        def root(key: str) -> str:
            while parent.setdefault(key, key) != key:
                parent[key] = key = parent[parent[key]]
            return key

        keys = []
        for example in self.examples:
            own = [self._picture(ref) for ref in example.images]
            if example.cluster:
                own.append(f"cluster:{example.cluster}")
            own = own or [f"item:{example.id}"]
            for other in own[1:]:
                parent[root(other)] = root(own[0])
            keys.append(own[0])
        return tuple(root(key) for key in keys)

    @property
    def cluster_key(self) -> str:
        """What makes a cluster: "image", or "column" where the benchmark names patients or slides."""
        return "column" if any(example.cluster for example in self.examples) else "image"

    def cluster_sizes(self) -> Counter[str]:
        return Counter(self.clusters)

    def _content(self, ref: ImageRef) -> str:
        digest = self.digests[ref]
        if isinstance(digest, Digests):
            return digest.bytes
        try:
            return byte_digest(ref.read())  # undecodable bytes are content too
        except ImageError:
            raw = getattr(ref.location, "raw", None)  # inline text that is not even base64
            return byte_digest(raw()) if raw is not None else f"missing:{ref.name}"

    def _picture(self, ref: ImageRef) -> str:
        """Two references show one picture if their pixels are equal, whatever they are called."""
        digest = self.digests[ref]
        return digest.pixels if isinstance(digest, Digests) else f"image:{ref.name}"


def _identify(known: Mapping[str, Digests], ref: ImageRef) -> Digests | ImageError:
    try:
        digests = known.get(byte_digest(ref.read())) if known else None
        return digests or digest_image(ref)
    except ImageError as error:
        return error
