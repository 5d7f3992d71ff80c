"""Figures that a source holds twice: a package given twice, an article as XML and in a shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark.normal import normal
from heldout.image import ImageError, decode, to_rgb
from heldout.synth.draft import PaperFigure
from heldout.synth.ingest.images import read_located

_SIDE = 32
_MEAN, _MOST = 3.0, 24.0  # levels of 255: re-encoding stays far below, another picture far above
_EARLIER = 8  # figures of one caption to compare with: what comes more often is a stock caption
_WAITING = 2_000

Pixels = NDArray[np.uint8]
Known = tuple[str, tuple[str, ...]]  # a figure's id, and where its images are


class SeenFigures:
    """What was read so far, by digests of ids, of image bytes and of captions. Pictures are compared only
    where a caption comes again with other bytes, many at a time: an archive is then read once for all."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._bytes: dict[bytes, str] = {}
        self._captions: dict[bytes, list[Known]] = {}
        self._waiting: list[tuple[PaperFigure, tuple[Known, ...]]] = []

    def known(self, figure: PaperFigure) -> str:
        """The figure that has this id or these very images; empty for a new one."""
        name = _digest(figure.id)
        if name in self._ids:
            return figure.id
        self._ids.add(name)
        key = _digest(*sorted(image.sha256 for image in figure.images))
        earlier = self._bytes.setdefault(key, figure.id)
        return "" if earlier == figure.id else earlier

    def waits(self, figure: PaperFigure) -> bool:
        """Whether earlier figures with as many images have this caption: ``compared`` will tell."""
        key = _digest(normal(figure.caption), str(len(figure.images)))
        earlier = self._captions.setdefault(key, [])
        waits = bool(earlier)
        if waits:
            self._waiting.append((figure, tuple(earlier)))
        if len(earlier) < _EARLIER:
            earlier.append((figure.id, _locations(figure)))
        return waits

    @property
    def full(self) -> bool:
        return len(self._waiting) >= _WAITING

    def compared(self) -> Iterator[tuple[PaperFigure, str]]:
        """Figures that waited, each with the id of an earlier one that shows the same; else empty."""
        needed = {place for figure, _ in self._waiting for place in _locations(figure)}
        needed |= {
            place for _, earlier in self._waiting for _, places in earlier for place in places
        }
        small = {place: _small(data) for place, data in read_located(sorted(needed))}
        for figure, earlier in self._waiting:
            own = _locations(figure)
            same = (name for name, places in earlier if _alike(own, places, small))
            yield figure, next(same, "")
        self._waiting.clear()


def _locations(figure: PaperFigure) -> tuple[str, ...]:
    return tuple(image.location for image in figure.images)


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


def _small(data: bytes) -> Pixels | None:
    try:
        image = to_rgb(decode(data)).resize((_SIDE, _SIDE))
    except ImageError:
        return None
    return np.asarray(image, np.uint8)


def _alike(
    places: tuple[str, ...], others: tuple[str, ...], small: Mapping[str, Pixels | None]
) -> bool:
    """The same pictures in the same order, whatever their size and encoding."""
    for one, other in zip(places, others, strict=True):
        ours, theirs = small.get(one), small.get(other)
        if ours is None or theirs is None:
            return False
        apart = np.abs(ours.astype(np.int16) - theirs)
        if apart.mean() > _MEAN or np.quantile(apart, 0.99) > _MOST:
            return False
    return True
