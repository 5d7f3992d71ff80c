"""Edges: the Canny map of every original picture, drawn once per picture and pair of thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark
from heldout.engine import progress
from heldout.image import Digests, ImageError, to_rgb
from heldout.store import Dropped, Run
from heldout.twin.edges import HIGH, LOW, canny, check_thresholds
from heldout.twin.ledger import DESCRIBE, EDGES, read_stage, write_stage
from heldout.twin.pictures import load, place, relative, save

STAGE = "twin edges"
FAINT = 0.02  # photographs and drawings have more; a radiograph at the usual thresholds does not


def edges(
    run: Run, benchmark: Benchmark, *, low: int = LOW, high: int = HIGH, quiet: bool = False
) -> None:
    check_thresholds(low, high)
    described = read_stage(run, DESCRIBE)
    refs = {example.id: example.images[0] for example in benchmark if example.images}
    rows: list[Mapping[str, Any]] = []
    dropped: list[Dropped] = []
    failed: dict[str, ImageError] = {}
    shares: dict[str, float] = {}
    with progress("drawing edges", len(described), "items", disabled=quiet) as step:
        for row in described:
            ref = refs[row["id"]]
            found = benchmark.digests[ref]
            assert isinstance(found, Digests)  # resampling let no other through
            name = found.pixels.rpartition(":")[2][:20]
            original = place(run, "originals", name)
            outline = place(run, "edges", f"{name}-{low}-{high}")
            if not (original.exists() and outline.exists()) and name not in failed:
                try:
                    picture = to_rgb(ref.open())
                    save(outline, canny(picture, low, high))
                    save(original, picture, quickly=True)
                except ImageError as error:  # it could be read a moment ago
                    failed[name] = error
            if name in failed:
                dropped.append(Dropped(STAGE, row["id"], failed[name].reason, failed[name].detail))
            else:
                share = shares.setdefault(name, _share(outline))
                rows.append({
                    "id": row["id"], "original": relative(run, original),
                    "edges": relative(run, outline), "low": low, "high": high, "share": share,
                })  # fmt: skip
            step()
    write_stage(run, EDGES, rows, dropped)


def faint(run: Run) -> float:
    """Of how many items the map holds next to nothing: it cannot keep their layout."""
    found = [row["share"] for row in read_stage(run, EDGES)]
    return sum(share < FAINT for share in found) / len(found) if found else 0.0


def _share(path: Path) -> float:
    """How much of a picture is edge."""
    picture = load(path)
    return (
        0.0
        if isinstance(picture, ImageError)
        else round(float(np.asarray(picture).any(axis=2).mean()), 5)
    )
