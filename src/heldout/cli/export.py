"""heldout export: a run as a dataset card, a database entry, an evaluation record or BibTeX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json
from heldout.cli.show import console, plain, print_json
from heldout.errors import InputError
from heldout.report import PDF, ExportSettings, export

EXAMPLE = "Example: heldout export runs/slake --to hf-card"


@command(ExportSettings, (Shown("to", "FORMAT"), Shown("model", "NAME")))
def export_command(
    settings: ExportSettings,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write it; a folder where it is several."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run as a dataset-card section, a contamination-database entry, an evaluation record, BibTeX.

    pdf makes a PDF of every figure of the report, beside its SVG.
    """
    result = export(run, out=out, settings=settings)
    if out is None and settings.to != PDF:
        if len(result.documents) > 1:
            raise InputError(
                f"this run has {len(result.documents)} models ({', '.join(result.documents)}), and each is "
                f"a document of its own: name one with --model, or a folder with --out"
            )
        typer.echo(result.text, nl=False)
    elif as_json:
        print_json({"written": [str(path) for path in result.written]})
        return
    else:
        for path in result.written:
            console().print(plain(f"wrote {path}"), markup=False, soft_wrap=True)
    if result.next_step:
        _say_next(result.next_step)


def _say_next(next_step: str) -> None:
    """On standard error, so that the export can be piped."""
    typer.echo(f"next: {next_step}", err=True)
