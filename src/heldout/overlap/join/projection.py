"""An upper bound of every similarity from a few leading axes, as one thin matrix product.

With P an orthonormal projection, q·x = Pq·Px + q'·x' and, by Cauchy–Schwarz, q'·x' ≤ |q'||x'|, where
the primes are what P leaves over. Appending |q'| and |x'| as one more coordinate makes the bound an
inner product again; appending -bar and 1 makes "may reach the bar" the sign of the result. Whoever
passes may be asked once more with more axes, pair by pair: that costs little, but spares most of them
the whole product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.join.similarity import NORM_TOLERANCE, UNIT_ROUNDOFF, rounding

# Costs per pair in units of one dimension of a matrix product, estimated from timings on one ARM
# core (Neoverse N1, OpenBLAS); the choice only affects speed, never results.
_LOOK = 10.0  # write one bound, compare it and move on
_REFINE, _AXIS = 1200.0, 15.0  # gather one pair that passed and bound it again; for each axis more
_FINISH = 9000.0  # gather one pair that passed again and finish it
_CHOICES = (14, 22, 30, 38, 46, 62, 78, 94, 126, 158, 190, 254)
_SAMPLE_QUERIES, _SAMPLE_ROWS = 256, 512
_LONGEST = (1 + NORM_TOLERANCE) ** 2  # |q||x| of any usable pair


class Levels(NamedTuple):
    """How many axes bound every pair, and how many (as many or more) bound those that pass."""

    axes: int
    more: int


PLAIN = Levels(0, 0)  # no bound: the whole product


@dataclass(frozen=True)
class Projection:
    """Leading axes of one set of queries and a sample of the corpus, best first."""

    basis: NDArray[np.float32]  # (axes, d)
    queries: NDArray[np.float32]  # (n, axes): coordinates of the queries
    left_over: NDArray[
        np.float32
    ]  # (n, axes + 1): length outside the first p axes, never too small

    @classmethod
    def fit(
        cls,
        queries: NDArray[np.float32],
        sample: NDArray[np.float32],
        most: int = _CHOICES[-1],
    ) -> Projection:
        """Axes along which queries and corpus rows differ most, at most ``most`` of them."""
        moments = np.zeros((queries.shape[1], queries.shape[1]))
        centres = []
        for side in (_spread(queries, 4 * most), _spread(sample, 4 * most)):
            centre = side.mean(axis=0)
            moments += (side - centre).T @ (side - centre) / len(side)
            centres.append(centre)
        moments += np.outer(centres[0] - centres[1], centres[0] - centres[1])
        axes = min(most, queries.shape[1])
        basis = _leading_axes(moments, axes).T
        coordinates = queries.astype(np.float64) @ basis.T  # exact enough to be called so
        outside = 1.0 + 1e-6 - np.cumsum(coordinates**2, axis=1)  # float32 queries: length 1 ± 1e-7
        left_over = np.ones((len(queries), axes + 1), np.float32)
        left_over[:, 1:] = np.sqrt(np.maximum(outside, 1e-6)) * (1 + 1e-6)
        return cls(
            np.ascontiguousarray(basis, np.float32), coordinates.astype(np.float32), left_over
        )

    def sides_of_queries(
        self, levels: Levels, bars: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(n, axes + 2) and (n, more - axes + 2): the first factors of the bound and of its refinement.

        The refinement takes the left-overs' product back, and adds the next axes and what they leave.
        """
        axes, more = levels
        lowered = (bars - self.margin(axes)).astype(np.float32)
        first, last = self.left_over[:, axes], self.left_over[:, more]
        ours = np.column_stack([self.queries[:, :axes], first, -lowered])
        return ours, np.column_stack([self.queries[:, axes:more], -first, last])

    def sides_of_rows(
        self, levels: Levels, rows: NDArray[np.float32], squares: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(m, axes + 2) and (m, more - axes + 2): the second factors.

        ``squares`` are the squared lengths of ``rows``.
        """
        axes, more = levels
        inside = rows @ self.basis[:more].T
        ones = np.ones(len(rows), np.float32)
        first = self._outside(axes, squares, inside)
        theirs = np.column_stack([inside[:, :axes], first, ones])
        if more == axes:
            return theirs, theirs[:, :0]
        last = self._outside(more, squares, inside)
        return theirs, np.column_stack([inside[:, axes:], first, last])

    def _outside(
        self, axes: int, squares: NDArray[np.float32], inside: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Lengths outside the first ``axes``, never too small."""
        outside = squares - np.einsum("ij,ij->i", inside[:, :axes], inside[:, :axes])
        length: NDArray[np.float32] = np.sqrt(
            np.maximum(outside, 0) + np.float32(self._slack(axes))
        )
        return length

    def margin(self, axes: int) -> float:
        """How much the computed bound may fall short of the true one: a worst case, not a guess."""
        product = 4 * rounding(axes + 2)  # coordinates, left-overs and bar are each at most ~1
        return 1.05 * self._drift(axes) + product + 16 * UNIT_ROUNDOFF

    def _drift(self, axes: int) -> float:
        """Largest error of a row's computed coordinates, as a vector; of the basis' rounding too."""
        width = self.basis.shape[1]
        return float(np.sqrt(axes)) * (rounding(width) + UNIT_ROUNDOFF) * 1.02

    def _slack(self, axes: int) -> float:
        """Largest error of a squared left-over length."""
        width = self.basis.shape[1]
        return 1.1 * (rounding(width) + rounding(axes) + 2 * self._drift(axes))

    def choose(self, sample: NDArray[np.float32], bars: NDArray[np.float64]) -> Levels:
        """What costs least on this sample of rows; PLAIN when the whole product does."""
        width, count = self.basis.shape[1], len(self.queries)
        some = slice(None, None, max(1, count // _SAMPLE_QUERIES))
        sample = _spread(sample, _SAMPLE_ROWS)
        squares = np.einsum("ij,ij->i", sample, sample)
        rows = sample @ self.basis.T
        products = np.zeros((len(self.queries[some]), len(sample)), np.float32)
        passed: dict[
            int, float
        ] = {}  # by number of axes, the share of pairs that may reach the bar
        done = 0
        for axes in (choice for choice in _CHOICES if choice <= len(self.basis)):
            products += self.queries[some, done:axes] @ rows[:, done:axes].T
            done = axes
            outside = self._outside(axes, squares, rows)
            reach = products + np.outer(self.left_over[some, axes], outside)
            bar = (bars[some] - self.margin(axes)).astype(np.float32)
            passed[axes] = np.count_nonzero(reach >= bar[:, None]) / reach.size
        costs = {PLAIN: width + _LOOK}
        for axes, more in ((axes, more) for axes in passed for more in passed if more >= axes):
            again = (_REFINE + _AXIS * (more - axes)) * passed[axes] if more > axes else 0.0
            fixed = axes + 2 + _LOOK + more * width / count
            costs[Levels(axes, more)] = fixed + again + _FINISH * passed[more]
        return min(costs, key=lambda levels: costs[levels])


def _leading_axes(moments: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """(d, count): leading eigenvectors, nearly. Any orthonormal axes give true bounds; these tight ones."""
    if 3 * count >= len(moments):
        return np.asarray(np.linalg.eigh(moments)[1][:, ::-1][:, :count])
    axes = np.random.default_rng(0).standard_normal((len(moments), count))
    # Subspace iteration: a fraction of the time of all eigenvectors. Two steps between orthogonalisations
    # square the eigenvalues' ratio, which double precision bears.
    axes = np.linalg.qr(moments @ (moments @ axes))[0]
    turn = np.linalg.eigh(axes.T @ moments @ axes)[1][:, ::-1]
    return np.asarray(axes @ turn)


def _spread(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    return rows[:: max(1, len(rows) // count)]


def plain_margin(width: int) -> float:
    """How far a float32 inner product (with a bar appended) may be from the exact one."""
    return rounding(width + 1) * (_LONGEST + 1) + 4 * UNIT_ROUNDOFF
