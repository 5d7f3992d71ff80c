"""heldout matrix: benchmarks × corpora over several runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from heldout.audit import MatrixSettings, leak_rates
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, plain, print_json
from heldout.engine import progress
from heldout.errors import InputError
from heldout.report import matrix_record, write_matrix

EXAMPLE = "Example: heldout matrix runs/slake runs/vqa-rad --out matrix"


def _datasets(entries: Sequence[str]) -> dict[str, str]:
    datasets = {}
    for entry in entries:
        name, equals, family = entry.rpartition("=")
        if not equals or not name or not family:
            raise InputError(
                f"--dataset {entry}: expected NAME=DATASET, --dataset slake-test=slake"
            )
        datasets[name] = family
    return datasets


SHOWN = (Shown("datasets", "NAME=DATASET", flag="--dataset", convert=_datasets, several=True),)


@command(MatrixSettings, SHOWN)
def matrix_command(
    settings: MatrixSettings,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write matrix.html, matrix.json and figures."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show how much of each benchmark is in each corpus, within one data set and across data sets."""
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")
    with progress("counting", 1, "tables", disabled=quiet) as step:
        matrix = leak_rates(runs, settings=settings)
        step()
    paths: list[Path] = []
    if out is not None:
        paths = write_matrix(matrix, out, command=shlex.join(["heldout", *sys.argv[1:]]))
    if as_json:
        print_json(matrix_record(matrix))
        return
    _print(matrix)
    if paths:
        console().print(f"\npage: {paths[0]}", soft_wrap=True)


def _print(matrix: pl.DataFrame) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("benchmark", "corpus", "data sets"):
        table.add_column(heading, overflow="fold")
    for heading in ("images", "same image", "transformed", "hard", "soft"):
        table.add_column(heading, justify="right")
    images = matrix.filter(pl.col("unit") == "images")
    keys = ("benchmark", "corpus", "scope", "encoder")
    for values, cells in images.group_by(*keys, maintain_order=True):
        by_kind = {row["kind"]: row for row in cells.iter_rows(named=True)}
        rates = [
            _rate(by_kind[kind]) for kind in ("same image", "transformed copy", "hard", "soft")
        ]
        names = [escape(plain(str(value))) for value in values[:2]]
        names.append("the same" if values[2] == "intra" else "different")
        table.add_row(*names, f"{by_kind['copy']['n']:,}", *rates)
    console().print(table)
    console().print(Text("in brackets: 95 % interval of the share of images, in per cent", "dim"))


def _rate(cell: dict[str, Any]) -> str:
    if not cell["n"]:
        return "–"
    return f"{cell['leaked']} [{100 * cell['low']:.1f}, {100 * cell['high']:.1f}]"
