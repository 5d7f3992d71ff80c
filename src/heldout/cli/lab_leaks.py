"""heldout lab leaks: planted leaks of every kind, and which of them the overlap audit finds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.errors import InputError, require
from heldout.lab import LeakSettings

EXAMPLE = "Example: heldout lab leaks --seeds 2 --out runs/leaks"
SHOWN = (
    Shown("seeds"),
    Shown("worlds", "NAME", flag="--world"),
    Shown("each"),
    Shown("items"),
    Shown("encoder", "E"),
    Shown("nearest"),
    Shown("text_encoder", "E"),
)


@command(LeakSettings, SHOWN)
def leaks_command(
    settings: LeakSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for corpora, runs, page and rows.")
    ],
    publish: Annotated[
        Path | None,
        typer.Option("--publish", metavar="DIR", help="Write the page and data/ there, too."),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Plant leaks of every kind and decoys, run the overlap audit, and count what it finds of each kind.

    What is finished is not computed again: give the same command to go on, or more --seeds to add some.
    """
    require("cv2", "vision", "telling copies from look-alikes")
    from heldout.engine import open_engine
    from heldout.lab import leak_board, run_leaks, summary, write_leaks, write_sheets

    for folder in (out, *([publish] if publish else [])):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; --out and --publish need the name of a folder")

    def tell(text: str) -> None:
        if not quiet and not as_json:
            console().print(text, markup=False)

    with open_engine(engine, workers) as chosen:
        rows = run_leaks(out, settings, chosen, tell, quiet=quiet)
    board = leak_board(rows)
    typed = shlex.join(["heldout", *sys.argv[1:]])
    sheets = write_sheets(rows, out)
    for folder in (out, *([publish] if publish else [])):
        paths = write_leaks(rows, board, settings, folder, typed)
    if as_json:
        print_json(board.model_dump(mode="json"))
        return
    for where, kind, share, people in summary(board):
        left = f", left to people {people}" if people else ""
        console().print(f"{where}: {kind}: {share}{left}", markup=False, soft_wrap=True)
    for sheet in sheets:
        console().print(f"to look at: {sheet}", soft_wrap=True)
    console().print(f"page: {paths[0]}", soft_wrap=True)
