"""heldout lab train: small models whose contamination is known, and their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Quiet
from heldout.cli.show import console
from heldout.errors import InputError, require
from heldout.lab import GridSettings

EXAMPLE = (
    "Example: heldout lab train --out runs/lab --size toy --base scenes0 --arm scenes0-d1 --images 4 "
    "--steps 20 --pictures 40"
)
SHOWN = (
    Shown("bases", "NAME", flag="--base"),
    Shown("arms", "NAME", flag="--arm"),
    Shown("keeps", "NAME", flag="--keep"),
    Shown("size", "small|medium|larger|toy"),
    Shown("images"),
    Shown("pictures"),
    Shown("steps"),
    Shown("batch"),
    Shown("real", "PATH"),
    Shown("device"),
    Shown("minutes"),
    Shown("seed"),
)


@command(GridSettings, SHOWN)
def train_command(
    settings: GridSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for models, readings and runs.")
    ],
    quiet: Quiet = False,
) -> None:
    """Train a grid of small vision-language models with planted leaks, and score and ask every one.

    What is finished is not trained again: give the same command to go on.
    """
    require("torch", "hf", "training the lab's models")
    from heldout.lab import train_grid

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")

    def tell(text: str) -> None:
        if not quiet:
            console().print(text, markup=False)

    finished = train_grid(out, settings, tell=tell)
    if not finished:
        console().print("the minutes ran out; give the same command again to go on")
    console().print(f"models: {out / 'runs' / 'models.json'}", soft_wrap=True)
    console().print(f"next: heldout detect {out / 'runs' / 'scenes'}", soft_wrap=True)
