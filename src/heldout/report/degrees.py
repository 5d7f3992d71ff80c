"""Heat maps of one run: what is a copy, and what is near by similarity alone, in each corpus."""

from __future__ import annotations

from typing import Literal

import polars as pl

from heldout.overlap import MatrixRun, leakage_matrix
from heldout.report.figures import heat_map
from heldout.report.model_figures import Figure
from heldout.store import Run

_SHOWN: tuple[tuple[str, Literal["hard", "soft"], str], ...] = (
    ("copy", "hard", "Copies, share of images"),
    ("hard", "soft", "Hard neighbours, share of images"),
    ("soft", "soft", "Soft neighbours, share of images"),
)


def degree_figures(run: Run, items: pl.DataFrame, matches: pl.DataFrame) -> list[Figure]:
    """With one corpus, or without an encoder, the claims say it all."""
    manifest = run.manifest()
    stages = list(manifest["stages"].values())
    encoders = sorted({stage["encoder"] for stage in stages if stage["encoder"]})
    if len(stages) < 2 or not encoders:
        return []
    name = manifest["inputs"]["benchmark"]["name"]
    corpora = [stage["corpus"] for stage in stages]
    matrix = leakage_matrix([MatrixRun(name, items, matches, corpora, "; ".join(encoders))])
    images = matrix.filter(pl.col("unit") == "images")
    figures = []
    for kind, tone, title in _SHOWN:
        rates = dict(images.filter(pl.col("kind") == kind).select("corpus", "rate").iter_rows())
        cells = [[rates.get(corpus)] for corpus in corpora]
        drawn = heat_map(corpora, [name], cells, tone=tone, title=title)
        figures.append(Figure(f"degrees-{kind}", drawn, ""))
    return figures
