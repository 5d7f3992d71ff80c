"""The matrix as a page with heat maps, as SVG files and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import polars as pl
from markupsafe import Markup

from heldout.overlap import KINDS
from heldout.report.environment import templates
from heldout.report.figures import heat_map, standalone
from heldout.store import write_atomic, write_json

SCHEMA_VERSION = 1
_TITLES = {
    "same image": "Same image: equal bytes, equal pixels, or aligned pixels that agree",
    "transformed copy": "Transformed copy: the detail agrees after a transform",
    "copy": "Any copy",
    "hard": "Hard: similarity alone, at the encoder's hard degree",
    "soft": "Soft: similarity alone, from the soft degree up to the hard one",
    "hard or soft": "Hard or soft: similarity alone",
}
_FIGURES: tuple[tuple[str, Literal["hard", "soft"]], ...] = (
    ("same image", "hard"),
    ("transformed copy", "hard"),
    ("hard", "soft"),
    ("soft", "soft"),
)


def matrix_record(matrix: pl.DataFrame) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "kinds": list(KINDS), "cells": matrix.to_dicts()}


def write_matrix(matrix: pl.DataFrame, folder: Path, *, command: str = "") -> list[Path]:
    """``matrix.html``, ``matrix.json`` and one SVG per kind; the page first."""
    figures = {kind: _figure(matrix, kind, tone) for kind, tone in _FIGURES}
    paths = []
    for kind, figure in figures.items():
        paths.append(folder / "figures" / f"matrix-{kind.replace(' ', '-')}.svg")
        write_atomic(paths[-1], standalone(figure))
    page = (
        templates()
        .get_template("matrix.html.j2")
        .render(
            figures=list(figures.values()),
            scopes=_scopes(matrix),
            encoders=sorted(set(matrix["encoder"].to_list()) - {""}),
            command=command,
        )
    )
    write_atomic(folder / "matrix.html", page)
    write_json(folder / "matrix.json", matrix_record(matrix))
    return [folder / "matrix.html", folder / "matrix.json", *paths]


def _figure(matrix: pl.DataFrame, kind: str, tone: Literal["hard", "soft"]) -> Markup:
    """Rates per image; corpora down, benchmarks across, as in the published figures."""
    images = matrix.filter((pl.col("unit") == "images") & (pl.col("kind") == kind))
    several = images["encoder"].n_unique() > 1
    rates: dict[tuple[str, str], float | None] = {}
    for row in images.iter_rows(named=True):
        rates[row["corpus"], _label(row, several)] = row["rate"]
    corpora = list(dict.fromkeys(corpus for corpus, _ in rates))
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in rates))
    cells = [[rates.get((corpus, benchmark)) for benchmark in benchmarks] for corpus in corpora]
    return heat_map(corpora, benchmarks, cells, tone=tone, title=_TITLES[kind])


def _label(row: dict[str, Any], several: bool) -> str:
    """A benchmark looked at by several encoders is one column for each."""
    encoder = row["encoder"].split(" |")[0] or "equal pictures only"
    return f"{row['benchmark']} ({encoder})" if several else str(row["benchmark"])


def _scopes(matrix: pl.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    """Intra, then inter: one line per benchmark, corpus and unit, its kinds side by side."""
    scopes = []
    for scope in ("intra", "inter"):
        lines: dict[tuple[str, ...], dict[str, Any]] = {}
        for row in matrix.filter(pl.col("scope") == scope).iter_rows(named=True):
            key = (row["benchmark"], row["corpus"], row["encoder"], row["unit"])
            line = lines.setdefault(key, {**row, "kinds": {}})
            line["kinds"][row["kind"]] = row
        if lines:
            scopes.append((scope, list(lines.values())))
    return scopes
