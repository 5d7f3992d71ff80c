"""Nearest-neighbour distances of a benchmark against those of different pictures."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from heldout.report.figures.svg import (
    ABOVE,
    ALARM,
    LEGEND_LINE,
    SERIES,
    SOFT,
    Axes,
    Scale,
    figure,
    legend,
    line,
    path,
    rectangle,
    text,
)

_BINS = 48
_SEEN = 0.995  # the far tail of distances says nothing and would squeeze what does


def distance_histogram(
    benchmark: ArrayLike,
    null: ArrayLike,
    *,
    threshold: float,
    interval: tuple[float, float] | None = None,
    alpha: float | None = None,
    name: str = "benchmark",
    null_name: str = "null: different pictures of the corpus",
) -> Markup:
    """Both sets and the threshold are given as similarities and drawn as distances, 1 − s."""
    near = 1.0 - np.asarray(benchmark, dtype=np.float64)
    far = 1.0 - np.asarray(null, dtype=np.float64)
    tau = 1.0 - threshold
    both = [np.quantile(values, _SEEN) for values in (near, far) if len(values)]
    right = float(max([*both, 1.25 * tau, 1e-6]))
    edges = np.linspace(0.0, right, _BINS + 1)
    shares = [_shares(values, edges) for values in (near, far)]
    top = float(max(shares[0].max(), shares[1].max(), 1e-9)) * 1.12
    # The legend stands above the frame: anywhere inside it hides what some collection shows there.
    axes = Axes(
        Scale(0.0, right), Scale(0.0, top), height=400, top=ABOVE + 2 * LEGEND_LINE, percent=("y",)
    )
    floor = axes.y(0.0)
    title = f"Distance to the nearest corpus image: {name}"
    marks = axes.frame(title, "cosine distance to the nearest neighbour", "share of images")
    if interval is not None:
        left_end, right_end = axes.x(1.0 - interval[1]), axes.x(1.0 - interval[0])
        width = right_end - left_end
        marks.append(
            rectangle(left_end, axes.top, width, floor - axes.top, fill=ALARM, opacity=0.15)
        )
    for index, share in enumerate(shares[1]):
        x1, x2 = axes.x(edges[index]), axes.x(edges[index + 1])
        height = floor - axes.y(share)
        if height > 0.05:
            marks.append(
                rectangle(
                    x1 + 0.5,
                    floor - height,
                    x2 - x1 - 1,
                    height,
                    fill=SOFT,
                    opacity=0.38,
                    tip=f"{edges[index]:.3f} – {edges[index + 1]:.3f}: {share:.1%} of the null, "
                    f"{shares[0][index]:.1%} of {name}",
                )
            )
    for outline in _outlines(axes, edges, shares[0]):
        marks.append(path(outline, stroke=SERIES[0], fill=SERIES[0], opacity=0.22))
    marks.append(line(axes.x(tau), axes.top, axes.x(tau), floor, stroke=ALARM, width=2))
    flagged = f"{int((near < tau).sum()):,} of {len(near):,} closer"
    label = f"1 − τ({alpha:.2g}) = {tau:.4f}" if alpha is not None else f"1 − τ = {tau:.4f}"
    side = "start" if axes.x(tau) < axes.width * 0.6 else "end"
    at = axes.x(tau) + (7 if side == "start" else -7)
    marks.append(text(at, axes.top + 14, label, fill=ALARM, anchor=side, weight=600, halo=True))
    marks.append(text(at, axes.top + 30, flagged, fill=ALARM, anchor=side, halo=True))
    beyond = int((near > right).sum()), int((far > right).sum())
    entries = [
        (f"{name}, {len(near):,} images" + _beyond(beyond[0]), SERIES[0], ""),
        (f"{null_name}, {len(far):,}" + _beyond(beyond[1]), SOFT, ""),
    ]
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(f"{title}; {label}, {flagged}", axes.width, axes.height, marks)


def _outlines(
    axes: Axes, edges: NDArray[np.float64], shares: NDArray[np.float64]
) -> list[list[tuple[float, float]]]:
    """One outline per run of bins that hold anything; empty ones are left to the axis."""
    runs: list[list[tuple[float, float]]] = []
    previous = 0.0
    for index, share in enumerate(shares):
        left, right = axes.x(edges[index]), axes.x(edges[index + 1])
        if share > 0:
            if previous == 0:
                runs.append([(left, axes.y(0.0))])
            runs[-1] += [(left, axes.y(share)), (right, axes.y(share))]
        elif previous > 0:
            runs[-1].append((left, axes.y(0.0)))
        previous = share
    if previous > 0:
        runs[-1].append((axes.x(edges[-1]), axes.y(0.0)))
    return runs


def _shares(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    # Copies have distance 0 up to rounding, on either side of it.
    counts, _ = np.histogram(np.maximum(values, 0.0), bins=edges)
    return np.asarray(counts / max(len(values), 1), dtype=np.float64)


def _beyond(count: int) -> str:
    return f" ({count:,} beyond)" if count else ""
