"""Perceptual hashes: re-encoded, resized, grey, flipped or turned copies, found without an encoder.

The benchmark's pictures stand in the index in all eight poses (and for PDQ in the negative), the
corpus passes by upright. What lies within the radius is a candidate for ``verify``, no finding.

Radii: PDQ's authors advise 31 of 256 bits and a quality of at least 50. pHash has no such advice: 6 of
64 bits keep what PDQ loses by a pose or a small crop, and of pairs of strangers among radiographs about
2 in 100,000 lie as near, against 12 within 8 bits (bench/hash_radii.py; docs/overlap.md).

A corpus picture is hashed from a small decoding first. Only one that lies within the radius and a slack
for what shrinking changes is decoded whole: what is stored is always the hash at full size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import ImageError, ImageRef
from heldout.overlap.images._hamming import HammingIndex
from heldout.overlap.images._pdq import pdq_poses
from heldout.overlap.images.encoder import POSES, in_pose
from heldout.overlap.images.fingerprint import (
    SIDE,
    Fingerprint,
    fingerprint,
    fingerprint_image,
    phash,
)
from heldout.overlap.images.lanczos import grey_pixels

PDQ: Final = "pdq"
PHASH: Final = "phash"
RADII: dict[str, int] = {PDQ: 31, PHASH: 6}
BYTES = {PDQ: 32, PHASH: 8}
# How far a hash of a small decoding lies from the one at full size: bench/fingerprints.py counts bits.
SLACK = {PDQ: 12, PHASH: 2}
# With more pictures to look for, so many strangers lie within the slack that nothing is saved.
SCREENED_PICTURES = 2048
BLOCK = 256  # corpus pictures screened together


@dataclass(frozen=True)
class HashIndex:
    """Codes of the benchmark's pictures, by method. Small and picklable."""

    joins: Mapping[str, HammingIndex]
    wide: Mapping[str, HammingIndex]  # with the slack; empty where screening is not worth it
    pictures: Mapping[str, tuple[str, ...]]  # per code, the key of its picture
    views: Mapping[str, tuple[str, ...]]  # per code, the pose it is of


def build_hash_index(pictures: Mapping[str, ImageRef]) -> HashIndex:
    """The index of ``pictures`` by key; those with too little texture for a hash are not in it."""
    codes: dict[str, list[bytes]] = {PDQ: [], PHASH: []}
    keys: dict[str, list[str]] = {PDQ: [], PHASH: []}
    views: dict[str, list[str]] = {PDQ: [], PHASH: []}

    def add(method: str, key: str, view: str, code: bytes) -> None:
        codes[method].append(code)
        keys[method].append(key)
        views[method].append(view)

    for key, ref in pictures.items():
        image = ref.open()
        if not fingerprint_image(image, "", sizes=()).usable:
            continue
        for pose, code in enumerate(pdq_poses(image)[0]):
            add(PDQ, key, POSES[pose], code)
            # Inversion turns every coefficient round, so it turns every bit round.
            add(PDQ, key, f"{POSES[pose]}, inverted", bytes(255 - byte for byte in code))
        small = Image.fromarray(grey_pixels(image)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        for pose, name in enumerate(POSES):
            add(PHASH, key, name, phash(in_pose(small, pose)).to_bytes(BYTES[PHASH], "big"))
    matrices = {method: _matrix(codes[method], method) for method in RADII}
    screens = len(pictures) <= SCREENED_PICTURES
    return HashIndex(
        {m: HammingIndex(matrices[m], radius=RADII[m]) for m in RADII},
        {
            m: HammingIndex(matrices[m], radius=RADII[m] + SLACK[m], tables=False)
            for m in RADII
            if screens
        },
        {method: tuple(keys[method]) for method in RADII},
        {method: tuple(views[method]) for method in RADII},
    )


@dataclass(frozen=True)
class Waiting:
    """A picture that was looked at small: is it near enough to be decoded whole?"""

    item: str
    ref: ImageRef
    fingerprint: Fingerprint
    exact: str | None


@dataclass
class HashedShard:
    """The hashes of one shard's pictures, gathered one by one and joined as a block."""

    index: HashIndex
    ids: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    exact: list[str | None] = field(default_factory=list)
    codes: dict[str, list[bytes]] = field(default_factory=lambda: {PDQ: [], PHASH: []})
    waiting: list[Waiting] = field(default_factory=list)

    @property
    def screens(self) -> bool:
        return bool(self.index.wide)

    def wait(self, waiting: Waiting) -> None:
        if waiting.fingerprint.usable:
            self.waiting.append(waiting)
            if len(self.waiting) == BLOCK:
                self._settle()

    def add(self, item: str, fingerprint: Fingerprint, exact: str | None) -> None:
        """``exact`` is the benchmark picture this one was found to equal: no candidate for it."""
        if fingerprint.usable:
            self.ids.append(item)
            self.digests.append(fingerprint.pixels or fingerprint.bytes)
            self.exact.append(exact)
            for method in RADII:
                self.codes[method].append(_code(fingerprint, method))

    def _settle(self) -> None:
        """Decode whole what lies near in the small, and forget the rest."""
        near: set[int] = set()
        for method, join in self.index.wide.items():
            screened = _matrix(
                [_code(waiting.fingerprint, method) for waiting in self.waiting], method
            )
            near.update(join.scan(screened).position.tolist())
        whole: dict[str, Fingerprint] = {}  # a file may be waiting more than once
        for position in sorted(near):
            waiting = self.waiting[position]
            digest = waiting.fingerprint.bytes
            if digest not in whole:
                try:
                    whole[digest] = fingerprint(waiting.ref.read(), sizes=())
                except (ImageError, MemoryError):
                    # Gone in between, or too large: what was seen of it stands for it.
                    whole[digest] = waiting.fingerprint
            self.add(waiting.item, whole[digest], waiting.exact)
        self.waiting.clear()

    def candidates(self, shard: int) -> list[dict[str, Any]]:
        """Per method, picture and item the pose in which they are nearest."""
        self._settle()
        rows = []
        for method, join in self.index.joins.items():
            hits = join.scan(_matrix(self.codes[method], method))
            best: dict[tuple[str, int], tuple[float, int]] = {}
            for query, position, similarity in zip(
                hits.query.tolist(), hits.position.tolist(), hits.similarity.tolist(), strict=True
            ):
                pair = (self.index.pictures[method][query], position)
                best[pair] = max(best.get(pair, (-1.0, 0)), (similarity, -query))
            for (picture, position), (similarity, query) in sorted(best.items()):
                if picture != self.exact[position]:
                    rows.append(
                        {
                            "picture": picture,
                            "corpus_id": self.ids[position],
                            "digest": self.digests[position],
                            "shard": shard,
                            "method": method,
                            "similarity": similarity,
                            "view": self.index.views[method][-query],
                        }
                    )
        return rows


def _code(fingerprint: Fingerprint, method: str) -> bytes:
    return fingerprint.pdq if method == PDQ else fingerprint.phash.to_bytes(BYTES[PHASH], "big")


def _matrix(codes: list[bytes], method: str) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(codes), np.uint8).reshape(-1, BYTES[method])
