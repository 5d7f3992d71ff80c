"""heldout lab leaks: planted leaks of every kind, and which of them the overlap audit finds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.errors import InputError, require

EXAMPLE = "Example: heldout lab leaks --seeds 2 --out runs/leaks"


def leaks_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for corpora, runs, page and rows.")
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Corpora of each world.")] = 10,
    world: Annotated[
        list[str], typer.Option("--world", metavar="NAME", help="scenes, films; repeatable.")
    ] = ["scenes", "films"],  # noqa: B006 - typer copies defaults
    each: Annotated[
        int, typer.Option("--each", min=1, help="Items of every kind in a corpus.")
    ] = 2,
    items: Annotated[int, typer.Option("--items", min=1, help="Items of a corpus.")] = 120,
    encoder: Annotated[
        str, typer.Option("--encoder", metavar="E", help="As in overlap.")
    ] = "pixels",
    nearest: Annotated[
        int, typer.Option("--nearest", min=1, help="Neighbours of each picture to verify.")
    ] = 5,
    text_encoder: Annotated[
        str | None,
        typer.Option("--text-encoder", metavar="E", help="As in overlap: wordllama, minilm …"),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option("--publish", metavar="DIR", help="Write the page and data/ there, too."),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Plant leaks of every kind and decoys, run the overlap audit, and count what it finds of which kind.

    What is finished is not computed again: give the same command to go on, or more --seeds to add some.
    """
    require("cv2", "vision", "telling copies from look-alikes")
    from heldout.engine import open_engine
    from heldout.lab import LeakPlan, leak_board, run_leaks, summary, write_leaks, write_sheets

    for folder in (out, *([publish] if publish else [])):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; --out and --publish need the name of a folder")

    def tell(text: str) -> None:
        if not quiet and not as_json:
            console().print(text, markup=False)

    plan = LeakPlan(each, items, encoder, nearest, text_encoder)
    with open_engine(engine, workers) as chosen:
        rows = run_leaks(out, plan, world, seeds, chosen, tell, quiet=quiet)
    board = leak_board(rows)
    command = shlex.join(["heldout", *sys.argv[1:]])
    sheets = write_sheets(rows, out)
    for folder in (out, *([publish] if publish else [])):
        paths = write_leaks(rows, board, plan, folder, command)
    if as_json:
        print_json(board.model_dump(mode="json"))
        return
    for where, kind, share, people in summary(board):
        left = f", left to people {people}" if people else ""
        console().print(f"{where}: {kind}: {share}{left}", markup=False, soft_wrap=True)
    for sheet in sheets:
        console().print(f"to look at: {sheet}", soft_wrap=True)
    console().print(f"page: {paths[0]}", soft_wrap=True)
