"""heldout lab power: every detector over the grid of models whose contamination is known."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Quiet
from heldout.cli.show import console
from heldout.errors import InputError
from heldout.lab import PowerSettings

EXAMPLE = "Example: heldout lab power runs/lab --out runs/power"
SHOWN = (
    Shown("detectors", "NAME", flag="--detector"),
    Shown("ways", "WAY", flag="--way"),
    Shown("permutations"),
    Shown("seed"),
)


@command(PowerSettings, SHOWN)
def power_command(
    settings: PowerSettings,
    lab: Annotated[
        Path, typer.Argument(metavar="LAB", help="What heldout lab train wrote, or its runs.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for results, page and figure.")
    ],
    publish: Annotated[
        Path | None,
        typer.Option("--publish", metavar="DIR", help="Write page, figures/ and data/ there."),
    ] = None,
    rates_to: Annotated[
        Path | None,
        typer.Option(
            "--rates-to",
            metavar="FILE",
            help="Write the rates for heldout detect --rates there, too.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Score every detector against planted truth: power, false positives, smallest dose, cost.

    What is finished is not computed again: give the same command to go on.
    """
    from heldout.lab import (
        read_grid,
        requirements,
        run_power,
        standings,
        with_truth,
        write_power,
    )
    from heldout.store import write_atomic

    for folder in (out, *([publish] if publish else [])):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; --out and --publish need the name of a folder")
    if rates_to is not None and (settings.detectors or settings.ways != PowerSettings().ways):
        raise InputError(
            "--rates-to needs every detector in every way: leave --detector and --way out"
        )
    grid = read_grid(lab)

    def tell(text: str) -> None:
        if not quiet:
            console().print(text, markup=False)

    rows = run_power(grid, out, settings, tell)
    rows = with_truth(rows, grid)
    board = standings(rows, settings.seed)
    if not board:
        raise InputError(f"{lab}: no detector could be tested on any model of this grid")
    typed = shlex.join(["heldout", *sys.argv[1:]])
    required, folder = requirements(rows, board), publish or out
    paths = write_power(rows, board, required, folder, typed, grid.about)
    if rates_to is not None:
        write_atomic(rates_to, paths[-1].read_bytes())
    console().print(f"page: {paths[0]}", soft_wrap=True)
