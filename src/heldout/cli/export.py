"""heldout export: a run as other people's catalogues take it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import folder_name
from heldout.cli.options import Json
from heldout.cli.show import console, plain, print_json
from heldout.errors import InputError, blame_the_machine
from heldout.report import FORMATS, PDF, export, figures_to_pdf
from heldout.store import Run, write_atomic

EXAMPLE = "Example: heldout export runs/slake --to hf-card"
_NAMES = (*FORMATS, PDF)


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
    opened = Run.open(run)
    if to not in _NAMES:
        raise InputError(f"--to {to}: expected one of {', '.join(_NAMES)}")
    if to == PDF:
        written = figures_to_pdf(opened, out)
    else:
        made = export(opened, to)
        if isinstance(made, dict):
            made = _chosen(made, model, out)
        elif model is not None:
            raise InputError(f"--model goes with --to every-eval-ever; {to} is about all models")
        if out is None:
            typer.echo(made if isinstance(made, str) else "", nl=False)
            _say_next(FORMATS[to].next_step)
            return
        written = _write(made, out, FORMATS[to].ending)
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        console().print(plain(f"wrote {path}"), markup=False, soft_wrap=True)
    if to in FORMATS:
        _say_next(FORMATS[to].next_step)


def _chosen(made: dict[str, str], model: str | None, out: Path | None) -> str | dict[str, str]:
    if model is not None:
        if model not in made:
            raise InputError(f"--model {model}: this run has scores of {', '.join(made)}")
        return made[model]
    if len(made) == 1:
        return next(iter(made.values()))
    if out is None:
        raise InputError(
            f"this run has {len(made)} models ({', '.join(made)}), and each is a document of its own: name "
            f"one with --model, or a folder with --out"
        )
    return made


def _write(made: str | dict[str, str], out: Path, ending: str) -> list[Path]:
    try:
        if isinstance(made, str):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(out, made)
            return [out]
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, text in made.items():
            paths.append(out / f"{folder_name(name)}.{ending}")
            write_atomic(paths[-1], text)
        return paths
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"--out {out} cannot be written: {error.strerror}") from error


def _say_next(next_step: str) -> None:
    """On standard error, so that the export can be piped."""
    typer.echo(f"next: {next_step}", err=True)
