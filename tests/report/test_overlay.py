from __future__ import annotations

import numpy as np
import pytest

from heldout.report._gallery import laid_on


def moved(matrix: str, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = (float(one) for one in matrix[len("matrix(") : -1].split())
    return a * x + c * y + e, b * x + d * y + f


def test_nothing_is_laid_where_nothing_moves() -> None:
    assert laid_on(None, (10, 10)) is None
    assert laid_on(np.eye(3).tolist(), (10, 10)) is None
    assert laid_on([[0, 0, 0], [0, 0, 0], [0, 0, 1]], (10, 10)) is None
    assert laid_on([[1, 0, float("nan")], [0, 1, 0], [0, 0, 1]], (10, 10)) is None


def test_a_mirrored_copy_comes_back_edge_on_edge() -> None:
    # The query's pixel 0 is the candidate's pixel 9: corners 0 and 10 change places.
    matrix = laid_on([[-1, 0, 9], [0, 1, 0], [0, 0, 1]], (10, 6))
    assert matrix is not None
    assert moved(matrix, 10, 0) == pytest.approx((0, 0))
    assert moved(matrix, 0, 6) == pytest.approx((10, 6))


def test_a_crop_at_half_the_size_covers_its_part_of_the_query() -> None:
    # A query of 40 x 40; the candidate shows its lower right quarter at the same scale.
    matrix = laid_on([[1, 0, -20], [0, 1, -20], [0, 0, 1]], (20, 20))
    assert matrix is not None
    assert moved(matrix, 0, 0) == pytest.approx((20, 20))
    assert moved(matrix, 20, 20) == pytest.approx((40, 40))


def test_a_homography_is_drawn_by_what_it_does_in_the_middle() -> None:
    warp = np.array([[1.02, 0.01, 3.0], [0.0, 0.98, -2.0], [1e-4, -5e-5, 1.0]])
    matrix = laid_on(warp.tolist(), (200, 100))
    assert matrix is not None
    back = np.linalg.inv(warp)
    x, y, depth = back @ np.array([99.5, 49.5, 1.0])  # the middle, as pixels are numbered
    assert moved(matrix, 100, 50) == pytest.approx((x / depth + 0.5, y / depth + 0.5), abs=1e-3)
