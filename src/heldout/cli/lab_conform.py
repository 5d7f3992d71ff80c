"""heldout lab conform and leaderboard: anybody's detector under our requirements, and beside ours."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet, Seed
from heldout.cli.show import console, plain, print_json
from heldout.engine import progress
from heldout.lab import ConformSettings

EXAMPLE = "Example: heldout lab conform heldout-halves --out results/heldout-halves.json"
BOARD_EXAMPLE = (
    "Example: heldout lab leaderboard docs/results/*.json --rows docs/data/detector-power.parquet "
    "--publish docs"
)
SHOWN = (
    Shown("cells"),
    Shown("power_cells"),
    Shown("doses", "D", flag="--dose"),
    Shown("permutations"),
    Shown("seed"),
)


@command(ConformSettings, SHOWN)
def conform_command(
    settings: ConformSettings,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE",
            help="An installed package with detectors, a module, module:NAME, a file that ends with .py, "
            "the name of a detector, or heldout.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the results for the leaderboard there."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            metavar="PARQUET",
            help="Rows of trained models that heldout lab power wrote, to put into the file.",
        ),
    ] = None,
    authors: Annotated[
        str, typer.Option("--authors", help="Who made it, for the leaderboard.")
    ] = "",
    url: Annotated[str, typer.Option("--url", help="Where it is, for the leaderboard.")] = "",
    note: Annotated[str, typer.Option("--note", help="A sentence about these results.")] = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Does a detector hold what heldout requires of its own? Exits with 1 if it fails a requirement."""
    from heldout.lab import conform_all, find_package, results_of
    from heldout.store import write_json

    held = find_package(package)
    tested = []
    steps = 5 * len(held.detectors)
    with progress(f"requirements on {held.name}", steps, "checks", disabled=quiet) as step:
        for detector, conformance in conform_all(held, settings, lambda _: step(1)):
            tested.append((detector, conformance))
    results = results_of(
        held,
        tested,
        rows=rows,
        authors=authors,
        url=url,
        note=note,
        command=shlex.join(["heldout", *sys.argv[1:]]),
    )
    if out is not None:
        write_json(out, results.model_dump(mode="json"))
    if as_json:
        print_json(results.model_dump(mode="json"))
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("detector", "requirement", "result", "detail"):
            table.add_column(name, overflow="fold")
        for detector, conformance in tested:
            for place, check in enumerate(conformance.checks):
                style = "green" if check.passed else "bold red"
                table.add_row(
                    "" if place else detector.name,
                    check.requirement,
                    Text("passed" if check.passed else "failed", style),
                    plain(check.detail),
                )
        console().print(table)
        if out is not None:
            console().print(f"\nresults: {out}", soft_wrap=True)
    if not all(conformance.passed for _, conformance in tested):
        raise typer.Exit(1)


def leaderboard_command(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS", help="Files that heldout lab conform --out wrote."),
    ],
    rows: Annotated[
        Path,
        typer.Option(
            "--rows",
            metavar="PARQUET",
            help="Rows of trained models that heldout lab power wrote: detector-power.parquet.",
        ),
    ],
    publish: Annotated[
        Path, typer.Option("--publish", metavar="DIR", help="Write page and figures/ there.")
    ],
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the leaderboard of detectors: ours, and those of everybody who sent results."""
    import polars as pl

    from heldout.errors import InputError
    from heldout.lab import read_results, write_leaderboard

    if not rows.is_file():
        raise InputError(f"--rows {rows}: there is no such file")
    typed = shlex.join(["heldout", *sys.argv[1:]])
    packages = [read_results(path) for path in results]
    page, card = write_leaderboard(pl.read_parquet(rows), packages, publish, typed, seed)
    if not quiet:
        console().print(f"page: {page}\ncard: {card}", soft_wrap=True)
