"""Memory that is used again: never seen twice, never shared, and small ranges only where they help."""

from __future__ import annotations

import pickle
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from heldout.overlap.images._join_index import JoinIndex
from heldout.overlap.images._scratch import Scratch
from join_stream import row_ranges, scan_rows


def unit(count: int, width: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, width))
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows.astype(np.float16)


def test_the_same_memory_comes_again_and_grows_when_it_must() -> None:
    scratch = Scratch()
    first = scratch.take("rows", (4, 8), np.float32)
    assert np.shares_memory(first, scratch.take("rows", (2, 8), np.float32))
    assert not np.shares_memory(first, scratch.take("scores", (4, 8), np.float32))
    assert scratch.take("rows", (400, 8), np.float32).shape == (400, 8)


def test_neither_threads_nor_copies_share_memory() -> None:
    scratch = Scratch()
    ours = scratch.take("rows", (64,), np.float32)
    theirs: list[np.ndarray] = []
    other = threading.Thread(target=lambda: theirs.append(scratch.take("rows", (64,), np.float32)))
    other.start()
    other.join()
    assert not np.shares_memory(ours, theirs[0])
    copy = pickle.loads(pickle.dumps(scratch))
    assert not np.shares_memory(ours, copy.take("rows", (64,), np.float32))


def test_what_a_scan_found_outlives_the_next_scan(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    corpus = unit(6000, 32, 0)
    corpus[17] = np.nan  # an unusable row must not be left behind in the memory
    np.save(path, corpus)
    index = JoinIndex(corpus[:40].astype(np.float32)[np.arange(40) != 17], threshold=0.6, k=3)
    ranges = list(row_ranges([path], 2**17, growing=False))
    assert len(ranges) > 2
    parts = [scan_rows(index, rows) for rows in ranges]
    kept = [(hits.position.copy(), hits.similarity.copy()) for hits in parts]
    for rows, (position, similarity), hits in zip(ranges, kept, parts, strict=True):
        fresh = JoinIndex(index.queries, threshold=0.6, k=3).scan(
            np.array(corpus[rows.first : rows.stop]), rows.start
        )
        assert np.array_equal(hits.position, position) and np.array_equal(fresh.position, position)
        assert np.array_equal(fresh.similarity, similarity)
        assert np.array_equal(fresh.unusable, hits.unusable)


def test_ranges_grow_only_where_bars_rise(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((40_000, 64), np.float16))
    memory = 2**22
    fixed = [rows.stop - rows.first for rows in row_ranges([path], memory, growing=False)]
    growing = [rows.stop - rows.first for rows in row_ranges([path], memory, growing=True)]
    assert sum(fixed) == sum(growing) == 40_000
    assert fixed[0] == memory // 128 and growing[0] == 2**20 // 128


# As a picture does: several pieces at once, all freed before the next.
PICTURES = """
import resource
import numpy as np
from heldout.overlap.images._scratch import keep_freed_memory
keep_freed_memory()
for number in range(12):
    pieces = [np.empty(3 << 19, np.uint8) for _ in range(8)]
    for piece in pieces:
        piece.fill(1)
    del piece, pieces
    if number == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc learns what to keep")
def test_freed_memory_is_kept_for_the_next_picture():
    command = [sys.executable, "-c", PICTURES]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(printed) < 1000  # ten times 12 MB are 30,000 pages of 4 KiB
