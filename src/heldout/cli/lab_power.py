"""heldout lab power: every detector over the grid of models whose contamination is known."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.options import Quiet
from heldout.cli.show import console
from heldout.errors import InputError

EXAMPLE = "Example: heldout lab power runs/lab --out runs/power"


def power_command(
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
    detector: Annotated[
        list[str], typer.Option("--detector", metavar="NAME", help="Only these; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    permutations: Annotated[
        int, typer.Option("--permutations", min=99, help="The most per test.")
    ] = 999,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random draw.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Score every detector against planted truth: power, false positives, smallest dose, cost.

    What is finished is not computed again: give the same command to go on.
    """
    from heldout.lab import (
        PowerPlan,
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
    if rates_to is not None and detector:
        raise InputError("--rates-to needs every detector: leave --detector out")
    grid = read_grid(lab)

    def tell(text: str) -> None:
        if not quiet:
            console().print(text, markup=False)

    rows = run_power(grid, out, PowerPlan(permutations, seed, tuple(detector)), tell)
    rows = with_truth(rows, grid)
    board = standings(rows, seed)
    if not board:
        raise InputError(f"{lab}: no detector could be tested on any model of this grid")
    command = shlex.join(["heldout", *sys.argv[1:]])
    required, folder = requirements(rows, board), publish or out
    paths = write_power(rows, board, required, folder, command, grid.about)
    if rates_to is not None:
        write_atomic(rates_to, paths[-1].read_bytes())
    console().print(f"page: {paths[0]}", soft_wrap=True)
