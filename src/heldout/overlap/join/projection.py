"""An upper bound of every similarity from a few leading axes, as one thin matrix product.

With P an orthonormal projection, q·x = Pq·Px + q'·x' and, by Cauchy–Schwarz, q'·x' ≤ |q'||x'|, where
the primes are what P leaves over. Appending |q'| and |x'| as one more coordinate makes the bound an
inner product again; appending -bar and 1 makes "may reach the bar" the sign of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.join.similarity import NORM_TOLERANCE, UNIT_ROUNDOFF, rounding

# Costs per pair in units of one dimension of a matrix product, estimated from timings on one ARM
# core (Neoverse N1, OpenBLAS); the choice only affects speed, never results.
_LOOK = 10.0  # write one bound, compare it and move on
_FINISH = 7000.0  # gather one surviving pair and finish it
_CHOICES = (14, 22, 30, 38, 46, 62, 78, 94, 126, 158, 190, 254)
_FIT, _SAMPLE_QUERIES, _SAMPLE_ROWS = 1024, 256, 512
_LONGEST = (1 + NORM_TOLERANCE) ** 2  # |q||x| of any usable pair


@dataclass(frozen=True)
class Projection:
    """Leading axes of one set of queries and a sample of the corpus, best first."""

    basis: NDArray[np.float32]  # (axes, d)
    queries: NDArray[np.float32]  # (n, axes): coordinates of the queries
    left_over: NDArray[
        np.float32
    ]  # (n, axes + 1): length outside the first p axes, never too small

    @classmethod
    def fit(cls, queries: NDArray[np.float32], sample: NDArray[np.float32]) -> Projection:
        """Axes along which queries and corpus rows differ most."""
        moments = np.zeros((queries.shape[1], queries.shape[1]))
        centres = []
        for side in (_spread(queries, _FIT), _spread(sample, _FIT)):
            centre = side.mean(axis=0)
            moments += (side - centre).T @ (side - centre) / len(side)
            centres.append(centre)
        moments += np.outer(centres[0] - centres[1], centres[0] - centres[1])
        axes = min(_CHOICES[-1], queries.shape[1])
        basis = np.linalg.eigh(moments)[1][:, ::-1][:, :axes].T
        coordinates = queries.astype(np.float64) @ basis.T  # exact enough to be called so
        outside = 1.0 + 1e-6 - np.cumsum(coordinates**2, axis=1)  # float32 queries: length 1 ± 1e-7
        left_over = np.ones((len(queries), axes + 1), np.float32)
        left_over[:, 1:] = np.sqrt(np.maximum(outside, 1e-6)) * (1 + 1e-6)
        return cls(
            np.ascontiguousarray(basis, np.float32), coordinates.astype(np.float32), left_over
        )

    def side_of_queries(self, axes: int, bars: NDArray[np.float64]) -> NDArray[np.float32]:
        """(n, axes + 2): the first factor of the bound."""
        lowered = (bars - self.margin(axes)).astype(np.float32)
        return np.column_stack([self.queries[:, :axes], self.left_over[:, axes], -lowered])

    def side_of_rows(
        self, axes: int, rows: NDArray[np.float32], squares: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """(m, axes + 2): the second factor. ``squares`` are the squared lengths of ``rows``."""
        side = np.empty((len(rows), axes + 2), np.float32)
        inside = side[:, :axes]
        np.matmul(rows, self.basis[:axes].T, out=inside)
        outside = squares - np.einsum("ij,ij->i", inside, inside)
        np.sqrt(np.maximum(outside, 0) + np.float32(self._slack(axes)), out=side[:, axes])
        side[:, axes + 1] = 1
        return side

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

    def choose(
        self,
        sample: NDArray[np.float32],
        bars: NDArray[np.float64],
    ) -> int:
        """How many axes cost least on this sample of rows; 0 when a plain product does."""
        width, count = self.basis.shape[1], len(self.queries)
        some = slice(None, None, max(1, count // _SAMPLE_QUERIES))
        sample = _spread(sample, _SAMPLE_ROWS)
        squares = np.einsum("ij,ij->i", sample, sample)
        best, cheapest = 0, width + 1 + _LOOK
        rows = sample @ self.basis.T
        bounds = np.zeros((len(self.queries[some]), len(sample)), np.float32)
        inside = np.zeros(len(sample), np.float32)
        done = 0
        for axes in (choice for choice in _CHOICES if choice <= len(self.basis)):
            fixed = axes + 2 + _LOOK + axes * width / count
            if fixed >= cheapest:
                break
            step = slice(done, axes)
            bounds += self.queries[some, step] @ rows[:, step].T
            inside += np.einsum("ij,ij->i", rows[:, step], rows[:, step])
            done = axes
            outside = np.sqrt(np.maximum(squares - inside, 0) + self._slack(axes))
            reach = bounds + np.outer(self.left_over[some, axes], outside.astype(np.float32))
            bar = (bars[some] - self.margin(axes)).astype(np.float32)
            cost = fixed + _FINISH * np.count_nonzero(reach >= bar[:, None]) / reach.size
            if cost < cheapest:
                best, cheapest = axes, cost
        return best


def _spread(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    return rows[:: max(1, len(rows) // count)]


def plain_margin(width: int) -> float:
    """How far a float32 inner product (with a bar appended) may be from the exact one."""
    return rounding(width + 1) * (_LONGEST + 1) + 4 * UNIT_ROUNDOFF
