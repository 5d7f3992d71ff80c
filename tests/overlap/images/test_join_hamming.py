"""The Hamming join: the pairs of brute force for 64- and 256-bit codes, whatever the radius."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.images import _hamming as hamming_module
from heldout.overlap.images._hamming import HammingIndex
from heldout.overlap.images._join import Hits, merge

Codes = NDArray[np.uint8]
Maker = Callable[[int, int], tuple[Codes, Codes]]


@pytest.fixture
def codes() -> Maker:
    """Random codes, and queries that are corpus codes with 0, 1, 2 … bits flipped."""

    def make(size: int, radius: int) -> tuple[Codes, Codes]:
        draw = np.random.default_rng(0)
        corpus = draw.integers(0, 256, (3000, size), dtype=np.uint8)
        corpus[:, :2] &= 7  # a piece with few values, as real hashes have
        queries = corpus[:150].copy()
        for number, code in enumerate(queries):
            for bit in draw.permutation(size * 8)[: number % (radius + 3)]:
                code[bit // 8] ^= 1 << (bit % 8)
        return queries, corpus

    return make


def brute_force(queries: Codes, corpus: Codes, radius: int) -> set[tuple[int, int, int]]:
    ours, theirs = (np.unpackbits(side, axis=1).astype(np.int16) for side in (queries, corpus))
    distance = np.stack([np.abs(theirs - code).sum(axis=1) for code in ours])
    query, row = np.nonzero(distance <= radius)
    return set(zip(query.tolist(), row.tolist(), distance[query, row].tolist(), strict=True))


def triples(hits: Hits, bits: int) -> list[tuple[int, int, int]]:
    distance = np.rint((1 - hits.similarity) * bits).astype(int)
    return list(zip(hits.query.tolist(), hits.position.tolist(), distance.tolist(), strict=True))


@pytest.mark.parametrize(
    ("size", "radius"), [(8, 0), (8, 1), (8, 3), (8, 10), (8, 21), (32, 0), (32, 31), (32, 70)]
)
def test_the_pairs_are_those_of_brute_force(codes: Maker, size: int, radius: int) -> None:
    queries, corpus = codes(size, radius)
    expected = brute_force(queries, corpus, radius)
    assert len(expected) >= 50
    found = triples(HammingIndex(queries, radius=radius).scan(corpus), size * 8)
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize("lookup", [0.0, 1e12])
def test_tables_and_plain_comparison_agree(
    codes: Maker, lookup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, corpus = codes(32, 31)
    monkeypatch.setattr(hamming_module, "_PAIRS", 500)  # many small steps
    monkeypatch.setattr(hamming_module, "_LOOKUP", lookup)
    index = HammingIndex(queries, radius=31)
    assert bool(index._tables) == (lookup == 0)
    assert set(triples(index.scan(corpus), 256)) == brute_force(queries, corpus, 31)


def test_blocks_merge_to_the_whole_in_order(codes: Maker) -> None:
    queries, corpus = codes(8, 6)
    index = HammingIndex(queries, radius=6)
    whole = index.scan(corpus)
    found = Hits.empty()
    for start in (2000, 0, 1000):
        part = index.scan(corpus[start : start + 1000], start)
        found = merge(found, part, None, index.threshold)
    assert np.array_equal(found.query, whole.query)
    assert np.array_equal(found.position, whole.position)
    assert np.array_equal(found.similarity, whole.similarity)
    assert (np.diff(whole.query) >= 0).all()


def test_bits_are_counted_without_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.array([0, 1, 2**63, 2**64 - 1, 0x0F0F], np.uint64)
    expected = [0, 1, 1, 64, 8]
    assert hamming_module.count_bits(words).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert hamming_module.count_bits(words).tolist() == expected


def test_wrong_codes_are_refused_with_a_sentence() -> None:
    codes = np.zeros((3, 8), np.uint8)
    with pytest.raises(InputError, match="even number"):
        HammingIndex(np.zeros((3, 7), np.uint8), radius=1)
    with pytest.raises(InputError, match="0 … 63 bits"):
        HammingIndex(codes, radius=64)
    with pytest.raises(InputError, match="same hash"):
        HammingIndex(codes, radius=3).scan(np.zeros((3, 32), np.uint8))
