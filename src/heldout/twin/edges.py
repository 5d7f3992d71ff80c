"""Edges: the outlines of a picture, which keep the layout of its twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.engine import progress
from heldout.errors import InputError, require
from heldout.image import Digests, ImageError, to_rgb
from heldout.store import Dropped, Run
from heldout.twin.drawing import load, place, relative, save
from heldout.twin.ledger import DESCRIBE, EDGES, read_stage, write_stage

LOW, HIGH = 100, 200  # size of the gradient at an edge: what Canny ControlNets were trained on


def canny(picture: Image.Image, low: int = LOW, high: int = HIGH) -> Image.Image:
    """White outlines on black, mode "L", of the picture's size.

    A gradient above ``high`` is an edge; one above ``low`` is, too, where it touches such an edge.
    """
    require("cv2", "vision", "finding edges")
    import cv2

    check_thresholds(low, high)
    # Of the colours, not of their greys: red on green of one lightness has an outline, too.
    pixels = np.ascontiguousarray(np.asarray(to_rgb(picture)))
    return Image.fromarray(cv2.Canny(pixels, low, high))


def check_thresholds(low: int, high: int) -> None:
    if not 0 <= low <= high or high == 0:
        raise InputError(
            f"edge thresholds {low} and {high}: expected 0 <= low <= high and high > 0, "
            f"for example {LOW} and {HIGH}"
        )


# Edges: the Canny map of every original picture, drawn once per picture and pair of thresholds.


STAGE = "twin edges"
FAINT = 0.15  # covered inside; drawings and photographs have more, a radiograph often has less
_CELLS = 8
_TRACE = 0.005  # of a cell's pixels


def edges(
    run: Run, benchmark: Benchmark, *, low: int = LOW, high: int = HIGH, quiet: bool = False
) -> None:
    check_thresholds(low, high)
    described = read_stage(run, DESCRIBE)
    refs = {example.id: example.images[0] for example in benchmark if example.images}
    rows: list[Mapping[str, Any]] = []
    dropped: list[Dropped] = []
    failed: dict[str, ImageError] = {}
    covered: dict[str, float] = {}
    with progress("drawing edges", len(described), "items", disabled=quiet) as step:
        for row in described:
            ref = refs[row["id"]]
            digest = benchmark.digests[ref]
            assert isinstance(digest, Digests)  # resampling only keeps such items
            name = digest.pixels.rpartition(":")[2][:20]
            original = place(run, "originals", name)
            outline = place(run, "edges", f"{name}-{low}-{high}")
            if not (original.exists() and outline.exists()) and name not in failed:
                try:
                    picture = to_rgb(ref.open())
                    save(outline, canny(picture, low, high))
                    save(original, picture, quickly=True)
                except ImageError as error:  # it was just read
                    failed[name] = error
            if name in failed:
                dropped.append(Dropped(STAGE, row["id"], failed[name].reason, failed[name].detail))
            else:
                share = covered[name] if name in covered else _covered(outline)
                covered[name] = share
                rows.append(
                    {
                        "id": row["id"],
                        "original": relative(run, original),
                        "edges": relative(run, outline),
                        "low": low,
                        "high": high,
                        "covered": share,
                    }
                )
            step()
    write_stage(run, EDGES, rows, dropped)


def faint(run: Run) -> float:
    """The share of items whose map is nearly empty inside: it cannot keep their layout."""
    covered = [row["covered"] for row in read_stage(run, EDGES)]
    return sum(share < FAINT for share in covered) / len(covered) if covered else 0.0


def _covered(path: Path) -> float:
    """The share of the picture's cells that an edge reaches; text is burned in at the border, so the outermost
    cells are left out."""
    picture = load(path)
    if isinstance(picture, ImageError) or min(picture.size) < _CELLS:
        return 0.0
    white = np.asarray(picture.convert("L")) > 0
    rows, columns = (side // _CELLS for side in white.shape)
    cells = white[: rows * _CELLS, : columns * _CELLS].reshape(_CELLS, rows, _CELLS, columns)
    inside = cells.mean(axis=(1, 3))[1:-1, 1:-1]
    return round(float((inside > _TRACE).mean()), 4)
