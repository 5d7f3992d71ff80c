"""heldout merge: one run of the parts of a search."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import MergeSettings, merge_runs
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import EngineName, Json, Quiet, Verbose, Workers
from heldout.cli.overlap import show_overlap
from heldout.cli.show import complain

EXAMPLE = "Example: heldout merge runs/part-1 runs/part-2 runs/part-3 --out runs/slake"


@command(MergeSettings, (Shown("finish"),))
def merge_command(
    settings: MergeSettings,
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Run folders of heldout overlap --part, all of them."),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="RUN", help="Run folder; an unfinished one is continued."),
    ],
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Make one run of the parts of a search, with the tables and claims of a search in one piece.

    Pairs that look alike are verified now, so the corpora are read where the parts read them.
    """
    result = merge_runs(
        runs,
        out,
        engine,
        settings=settings,
        workers=workers,
        quiet=quiet,
        command=["heldout", *sys.argv[1:]],
        notify=complain,
    )
    show_overlap(result, None, verbose=verbose, as_json=as_json)
