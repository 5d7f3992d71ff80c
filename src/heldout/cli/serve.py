"""heldout serve: one page over many runs, read-only."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Quiet
from heldout.cli.show import console
from heldout.report import ServeSettings, serve

EXAMPLE = "Example: heldout serve runs"


@command(ServeSettings, (Shown("host"), Shown("port")))
def serve_command(
    settings: ServeSettings,
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS", help="Run folders, audits, or folders that hold them."),
    ],
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and open nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Show all runs on one page: status and numbers of each, with links to their reports. It only reads."""

    def ready(url: str) -> None:
        typer.echo(f"runs: {url}")  # typer flushes, and nothing breaks the address
        if not quiet:
            console().print("Ctrl-C ends.")
        if not no_browser:
            webbrowser.open(url)

    serve(runs, settings=settings, ready=ready)
