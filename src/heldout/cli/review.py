"""heldout review: a local page where people adjudicate matches and texts, rate items and twins."""

from __future__ import annotations

import shlex
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, plain, print_json
from heldout.report import rebuild_command
from heldout.review import Desk, ReviewSettings, open_desks, serve
from heldout.store import Run

EXAMPLE = "Example: heldout review runs/slake --rater ada --blind"
SHOWN = (
    Shown("rater", "NAME"),
    Shown("port"),
    Shown("kind", "matches|texts|twins|items"),
    Shown("blind"),
    Shown("rubric", flag="--rubric/--no-rubric"),
    Shown("unrelated", flag="--all"),
    Shown("sample"),
)


@command(ReviewSettings, SHOWN)
def review_command(
    settings: ReviewSettings,
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run folder; with --kind items also a benchmark."),
    ],
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and open nothing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where judgements go (default: RUN, or NAME-review)."
        ),
    ] = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Print how far raters agree, and serve nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Judge matches, texts, twins or items on a page that only this machine can open. Nothing leaves it."""
    desks = open_desks(run, settings, out=out)
    if agreement:
        _show_agreement(desks, as_json)
        return

    def ready(url: str) -> None:
        screen = console()
        what = " and ".join(desk.size for desk in desks)
        screen.print(f"{what} of {plain(desks[0].title)}, as {plain(desks[0].rater)}", markup=False)
        if any(desk.every > len(desk.cards) for desk in desks):
            screen.print("The most urgent are here; others come once these are judged.")
        typer.echo(f"review: {url}")  # typer flushes, and nothing breaks the address
        if not quiet:
            screen.print(
                f"Every verdict is on disk at once. Ctrl-C ends; then: {follow_up(desks[0], run)}",
                soft_wrap=True,
            )
        if not no_browser:
            webbrowser.open(url)

    serve(*desks, port=settings.port, ready=ready)


def follow_up(desk: Desk, source: str) -> str:
    """The command that includes the judgements."""
    if desk.kind == "twins":
        return "heldout twin BENCH --out RUN --from filter --keep people"
    if not (desk.folder / "manifest.json").exists():
        again = ["heldout", "review", source, "--kind", desk.kind, "--out", str(desk.folder)]
        return shlex.join([*again, "--agreement"])
    return rebuild_command(Run.open(desk.folder))


def _show_agreement(desks: Sequence[Desk], as_json: bool) -> None:
    if as_json:
        records = [
            {"kind": desk.kind, "tables": [asdict(table) for table in desk.tables()]}
            for desk in desks
        ]
        print_json(records[0] if len(records) == 1 else {**records[0], "also": records[1:]})
        return
    for desk in desks:
        _show_tables(desk, heading=len(desks) > 1)


def _show_tables(desk: Desk, *, heading: bool) -> None:
    tables, screen = desk.tables(), console()
    if heading:
        screen.print(f"\n[bold underline]{desk.kind}[/]")
    if not tables:
        screen.print(f"none of the {len(desk.cards):,} {desk.kind} is judged yet")
    for table in tables:
        screen.print(f"\n[bold]{table.title}[/]")
        grid = Grid(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
        for place, column in enumerate(table.columns):
            grid.add_column(column, no_wrap=place == 0, overflow="fold")
        for row in table.rows:
            grid.add_row(*(plain(cell) for cell in row))
        screen.print(grid)
        if table.note:
            screen.print(f"[dim]{table.note}[/]")
