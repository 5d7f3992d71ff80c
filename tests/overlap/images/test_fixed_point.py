"""Compiled sums: those of NumPy, and fingerprints that do not tell whether they were used."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from heldout.image import decode
from heldout.overlap.images import lanczos
from heldout.overlap.images._pdq import pdq, whole_smoothing
from heldout.overlap.images.fingerprint import fingerprint, screen
from heldout.overlap.images.lanczos import (
    LONGEST,
    MIDDLE,
    _whole_windows,
    is_compiled,
    reduce_compiled,
    row_sums,
    windows_of,
)

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")


@pytest.mark.parametrize("size", [(1, 1), (3, 15), (4, 16), (5, 17), (9, 64), (33, 301)])
def test_sums_are_numpys(size):
    chance = np.random.default_rng(size[1])
    grey = chance.integers(0, 256, size, dtype=np.uint8)
    for taps in {1, min(5, size[1]), size[1]}:
        first = chance.integers(0, size[1] - taps + 1, 6)
        windows = chance.integers(-(1 << 15), 1 << 15, (6, taps))
        windows[0] = 1 << 22 if taps == 1 else windows[0]  # the largest a reduction has
        expected = [
            (grey[:, start : start + taps].astype(np.int64) - MIDDLE) @ window
            for start, window in zip(first, windows, strict=True)
        ]
        assert np.array_equal(row_sums(grey, windows_of(first, windows, size[1])), expected)


@pytest.mark.parametrize(
    "size", [(32, 32), (700, 32), (300, 129), (181, 190), (1024, 768), (40, 9)]
)
def test_the_compiled_reduction_is_pillows_to_the_last_level(size):
    chance = np.random.default_rng(size[0])
    for grey in (
        chance.integers(0, 256, size[::-1], dtype=np.uint8),
        chance.integers(0, 2, size[::-1], dtype=np.uint8) * 255,  # the steepest edges
    ):
        expected = np.asarray(Image.fromarray(grey).resize((32, 32), Image.Resampling.LANCZOS))
        assert np.array_equal(reduce_compiled(grey, 32), expected)
        assert np.array_equal(reduce_compiled(np.asfortranarray(grey), 32), expected)


def test_a_fingerprint_does_not_tell_whether_anything_was_compiled(shared_data, monkeypatch):
    files = sorted((shared_data / "vqa_rad").rglob("*.jpg"))[::40]
    files += sorted((shared_data / "pmc_articles").rglob("*.jpg"))[::120]
    data = [path.read_bytes() for path in files]
    found = [(fingerprint(one), screen(one)) for one in data]
    monkeypatch.setattr(lanczos, "_compiled", lambda: None)
    monkeypatch.setattr("heldout.image.digest.compiled", lambda: None)
    for one, pair in zip(data, found, strict=True):
        assert (fingerprint(one), screen(one)) == pair
    assert any(decode(one).mode == "RGB" for one in data)


def test_frequencies_that_tie_are_not_told_apart_by_rounding(monkeypatch):
    y, x = np.mgrid[:300, :300]
    rings = 127 + 120 * np.sin(np.hypot(x - 149.5, y - 149.5) / 9)
    squares = (x // 30 + y // 30) % 2 * 255
    pictures = [Image.fromarray(grey.astype(np.uint8)) for grey in (rings, squares, x % 60 * 4)]
    found = [pdq(picture) for picture in pictures]
    monkeypatch.setattr(lanczos, "_compiled", lambda: None)
    assert [pdq(picture) for picture in pictures] == found


def test_tables_of_very_long_sides_are_not_kept():
    assert _whole_windows(700, 32) is _whole_windows(700, 32)
    assert _whole_windows(LONGEST + 1, 32) is not _whole_windows(LONGEST + 1, 32)
    assert whole_smoothing(LONGEST + 1) is not whole_smoothing(LONGEST + 1)


def test_windows_outside_the_picture_are_refused():
    from heldout.overlap.images._sums import row_sums as take

    grey = np.zeros((4, 20), np.uint8)
    weights = np.zeros((2, 16), np.int32)
    inside = np.array([0, 4], np.int32)
    assert len(take(grey, 20, 4, 2, 16, inside, weights)) == 2 * 4 * 4
    for wrong in (
        (grey, 20, 4, 2, 16, np.array([0, 5], np.int32), weights),
        (grey, 20, 4, 2, 16, np.array([-1, 0], np.int32), weights),
        (grey, 20, 5, 2, 16, inside, weights),
        (grey, 20, 4, 3, 16, inside, weights),
        (grey, 20, 4, 2, 32, inside, np.zeros((2, 32), np.int32)),
        (grey, 20, 4, 2, 16, inside, weights[:, :15].copy()),
        (grey, 0, 0, 2, 16, inside, weights),
        (grey, 20, 4, 2, 0, inside, weights),
    ):
        with pytest.raises(ValueError, match="windows"):
            take(*wrong)
