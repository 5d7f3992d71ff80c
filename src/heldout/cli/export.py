"""heldout export: a run as other people's catalogues take it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, with_options
from heldout.cli.options import Json
from heldout.cli.show import console, plain, print_json
from heldout.errors import HeldoutError, InputError
from heldout.report import FORMATS, PDF, export

EXAMPLE = "Example: heldout export runs/slake --to hf-card"
_NAMES = (*FORMATS, PDF)
SHOWN = tuple(Shown(name) for name in ("to", "out", "model"))


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"One of {', '.join(_NAMES)}.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write it; a folder where it is several."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Of every-eval-ever: this one alone."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run as a dataset-card section, a contamination-database entry, an evaluation record, BibTeX.

    pdf makes a PDF of every figure of the report, beside its SVG.
    """
    try:
        result = export(run, to, out=out, model=model)
    except HeldoutError as error:
        error.args = (with_options(str(error), SHOWN), *error.args[1:])
        raise
    if out is None and to != PDF:
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
