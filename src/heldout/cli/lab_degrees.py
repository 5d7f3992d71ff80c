"""heldout lab degrees: which similarities are hard and soft for an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, print_json
from heldout.lab import DegreeSettings, degrees_page, measure_degrees
from heldout.store import write_json

EXAMPLE = "Example: heldout lab degrees data/slake/images data/vqa_rad/images --encoder pixels"


@command(DegreeSettings, (Shown("queries"), Shown("pictures"), Shown("seed")))
def degrees_command(
    settings: DegreeSettings,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Collections of one kind of picture; the first shares no source with the others.",
        ),
    ],
    encoder: Annotated[
        list[str], typer.Option("--encoder", metavar="E", help="Repeatable; default: pixels.")
    ] = ["pixels"],  # noqa: B006 - typer copies defaults
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to write all figures (JSON)."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how similar light copies, near pictures and different pictures are, and which degrees separate
    them.

    Pass the result to overlap, impact and lab transforms as --degrees hard=H,soft=S.
    """
    measured_degrees = [
        measure_degrees(name, sources, settings, quiet=quiet or as_json) for name in encoder
    ]
    content = [degrees.model_dump(mode="json") for degrees in measured_degrees]
    if out is not None:
        write_json(out, content)
    if as_json:
        print_json(content)
        return
    console().print(degrees_page(measured_degrees), markup=False, soft_wrap=True)
    for degrees in measured_degrees:
        console().print(f"--degrees hard={degrees.hard:g},soft={degrees.soft:g}", markup=False)
