"""HammingIndex: every corpus code within a radius of a query code, exactly.

Two codes that differ in at most r of their bits differ little in at least one 16-bit piece (the
pigeonhole principle; Norouzi et al., "Fast exact search in Hamming space", 2014). A table per piece
gives for each of its 65,536 values the queries near it, so a row meets a few queries, not all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.images._join import Hits, select

_VALUES = 1 << 16
_PAIRS = 1 << 20  # candidate pairs held at a time
_LOOKUP = 12.0  # cost of one pair from a table, in units of one pair compared in a dense tile
_POPULATION = np.unpackbits(
    np.arange(_VALUES, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1
).sum(1, dtype=np.uint8)


class HammingIndex:
    """Codes are rows of bytes (8 for a 64-bit hash, 32 for PDQ). ``similarity`` of a hit is the
    share of equal bits, so that 1 is identical and the order is that of every other join."""

    k: int | None = None

    def __init__(self, codes: NDArray[np.uint8], *, radius: int, tables: bool = True) -> None:
        """Without ``tables`` every pair is compared: no memory but the codes."""
        if codes.ndim != 2 or codes.dtype != np.uint8 or codes.shape[1] % 2 or not codes.shape[1]:
            raise InputError(
                f"hash codes are rows of an even number of bytes, not {codes.dtype} {codes.shape}"
            )
        self.bits = codes.shape[1] * 8
        if not 0 <= radius < self.bits:
            raise InputError(f"the radius must lie in 0 … {self.bits - 1} bits, not {radius}")
        self.pieces = _pieces(codes)
        self.radius = radius
        self.threshold: float | None = (self.bits - radius) / self.bits
        # Beyond some radius every value is near many queries: plain comparison is faster then.
        reaches = [reach for _, reach in _reaches(self.pieces.shape[1], radius)]
        near = sum(math.comb(16, size) for reach in reaches for size in range(reach + 1))
        worth = tables and near * _LOOKUP < _VALUES
        self._tables = list(_tables(self.pieces, radius)) if worth else []

    def scan(self, block: NDArray[Any], start: int = 0, floor: object = None) -> Hits:
        """Hits among the rows of ``block``, whose first row is row ``start`` of the corpus."""
        if block.ndim != 2 or block.dtype != np.uint8 or block.shape[1] * 8 != self.bits:
            raise InputError(
                f"the corpus has codes of {block.dtype} {block.shape}, the queries have "
                f"{self.bits // 8} bytes; both must come from the same hash"
            )
        if not len(block) or not len(self.pieces):
            return Hits.empty()
        pieces = _pieces(block)
        meetings = sum(
            int((table[1:] - table[:-1])[pieces[:, number]].sum())
            for number, table, _ in self._tables
        )
        dense = float(len(pieces)) * len(self.pieces)
        sparse = self._tables and meetings * _LOOKUP < dense
        find = self._by_table if sparse else self._by_tile
        parts = [Hits.empty()]
        for query, row in find(pieces):
            distance = self._distance(pieces, query, row)
            near = distance <= self.radius
            # A pair may be near in several pieces: keep it once.
            pairs = np.unique(query[near].astype(np.int64) * len(pieces) + row[near])
            parts.append(self._hits(pieces, *np.divmod(pairs, len(pieces)), start))
        return _distinct(select(parts, None, self.threshold))

    def floor_of(self, hits: Hits) -> None:
        """A radius does not move; a join asks all the same."""

    def prepare(self, sample: NDArray[Any], rows: int) -> None:
        """Nothing to plan."""

    def _by_table(
        self, pieces: NDArray[np.uint16]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        for number, table, queries in self._tables:
            begin = table[pieces[:, number]]
            length = table[pieces[:, number].astype(np.int64) + 1] - begin
            ends = np.cumsum(length)
            first = 0
            while first < len(pieces):
                before = ends[first - 1] if first else 0
                stop = max(first + 1, int(np.searchsorted(ends, before + _PAIRS, "right")))
                row = np.repeat(np.arange(first, stop), length[first:stop])
                offset = np.arange(len(row)) - np.repeat(
                    ends[first:stop] - length[first:stop] - before, length[first:stop]
                )
                yield queries[np.repeat(begin[first:stop], length[first:stop]) + offset], row
                first = stop

    def _by_tile(
        self, pieces: NDArray[np.uint16]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        step = max(1, _PAIRS // len(self.pieces))
        ours = _words(self.pieces)
        theirs = _words(pieces)
        for first in range(0, len(pieces), step):
            tile = theirs[first : first + step]
            distance = np.zeros((len(tile), len(ours)), np.uint16)
            for word in range(ours.shape[1]):
                distance += count_bits(tile[:, word, None] ^ ours[None, :, word])
            row, query = np.divmod(np.flatnonzero(distance <= self.radius), len(ours))
            yield query, row + first

    def _distance(
        self, pieces: NDArray[np.uint16], query: NDArray[np.intp], row: NDArray[np.intp]
    ) -> NDArray[np.uint16]:
        distance = np.zeros(len(query), np.uint16)
        ours, theirs = _words(self.pieces), _words(pieces)
        for word in range(ours.shape[1]):
            distance += count_bits(ours[query, word] ^ theirs[row, word])
        return distance

    def _hits(
        self,
        pieces: NDArray[np.uint16],
        query: NDArray[np.intp],
        row: NDArray[np.intp],
        start: int,
    ) -> Hits:
        equal = self.bits - self._distance(pieces, query, row).astype(np.int64)
        return Hits(query.astype(np.int32), row.astype(np.int64) + start, equal / self.bits)


def count_bits(words: NDArray[Any]) -> NDArray[np.uint8]:
    """Set bits of each unsigned integer."""
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return np.asarray(np.bitwise_count(words))
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    return np.asarray(_POPULATION[halves].sum(axis=-1, dtype=np.uint8))


def _pieces(codes: NDArray[np.uint8]) -> NDArray[np.uint16]:
    return np.ascontiguousarray(codes).view(np.uint16)


def _words(pieces: NDArray[np.uint16]) -> NDArray[Any]:
    """The same bytes as the widest integers that fit."""
    for kind, size in ((np.uint64, 8), (np.uint32, 4)):
        if pieces.shape[1] * 2 % size == 0:
            return pieces.view(kind)
    return pieces


def _reaches(pieces: int, radius: int) -> Iterator[tuple[int, int]]:
    """Which pieces must be searched, and how many bits of each may differ.

    With r = s·c + a over c pieces, either one of the first a + 1 pieces differs in at most s bits
    or one of the others in at most s - 1.
    """
    near, rest = divmod(radius, pieces)
    for number in range(pieces):
        if number <= rest or near:
            yield number, near if number <= rest else near - 1


def _tables(
    pieces: NDArray[np.uint16], radius: int
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.intp]]]:
    """Per piece that must be searched: where each value's queries begin, and the queries."""
    for number, reach in _reaches(pieces.shape[1], radius):
        masks = [
            sum(1 << bit for bit in bits)
            for size in range(reach + 1)
            for bits in combinations(range(16), size)
        ]
        values = (pieces[:, number, None] ^ np.array(masks, np.uint16)).ravel()
        order = np.argsort(values, kind="stable")
        begin = np.searchsorted(values[order], np.arange(_VALUES + 1))
        yield number, begin.astype(np.int64), order // len(masks)


def _distinct(hits: Hits) -> Hits:
    """Hits in their order, each pair once."""
    if len(hits) < 2:
        return hits
    again = (np.diff(hits.query) == 0) & (np.diff(hits.position) == 0)
    first = np.r_[True, ~again]
    return Hits(hits.query[first], hits.position[first], hits.similarity[first], hits.unusable)
