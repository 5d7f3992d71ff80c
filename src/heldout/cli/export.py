"""heldout export: a run as tables, a badge, a dataset card, a database entry, an evaluation record, BibTeX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, plain, print_json
from heldout.errors import InputError
from heldout.report import PDF, TABLE_FORMATS, WORKBOOK, ExportSettings, export

EXAMPLE = "Example: heldout export runs/slake --to csv --out tables"


@command(ExportSettings, (Shown("to", "FORMAT"), Shown("table", "NAME"), Shown("model", "NAME")))
def export_command(
    settings: ExportSettings,
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A finished run folder, or the output of an audit."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write it; a folder where it is several."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write claims, findings, leaks and matches as tables, or a run as a badge, dataset-card section, database entry,
    evaluation record or BibTeX.

    csv, json and md go to standard output unless --out names a file; csv is one
    file per table, so name a table or a folder. xlsx goes to RUN/export.xlsx,
    and pdf makes a PDF of every figure of the report, beside its SVG.
    """
    result = export(run, out=out, settings=settings)
    if out is None and settings.to not in (PDF, WORKBOOK):
        if len(result.documents) > 1:
            narrower = "--table" if settings.to in TABLE_FORMATS else "--model"
            raise InputError(
                f"this makes {len(result.documents)} documents ({', '.join(result.documents)}): "
                f"name one with {narrower}, or a folder with --out"
            )
        typer.echo(result.text, nl=False)
    elif as_json:
        print_json({"written": [str(path) for path in result.written]})
        return
    else:
        for path in result.written:
            console().print(plain(f"wrote {path}"), markup=False, soft_wrap=True)
    if result.next_step and not quiet:
        _say_next(result.next_step)


def _say_next(next_step: str) -> None:
    """On standard error, so that the export can be piped."""
    typer.echo(f"next: {next_step}", err=True)
