"""heldout lab confound: which models of a clean cohort are flagged."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, print_json
from heldout.engine import progress
from heldout.lab import (
    ConfoundSettings,
    confound_json,
    confound_page,
    study_confound,
    write_confound,
)

EXAMPLE = "Example: heldout lab confound --out runs/confound"
SHOWN = (
    Shown("items"),
    Shown("closed"),
    Shown("closed_scale"),
    Shown("noise"),
    Shown("gains", flag="--gain"),
    Shown("offsets", flag="--offset"),
    Shown("low_gain"),
    Shown("high_gain"),
    Shown("most_outliers", flag="--outliers"),
    Shown("repeats"),
    Shown("tail"),
    Shown("flag"),
    Shown("seed"),
)


@command(ConfoundSettings, SHOWN)
def confound_command(
    settings: ConfoundSettings,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for page and figures.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show how a cohort's median flags clean models: the published Appendix B, with its constants as
    options."""
    with progress("drawing cohorts", 1, "studies", disabled=quiet) as step:
        result = study_confound(settings)
        step()
    typed = shlex.join(["heldout", *sys.argv[1:]])
    paths = write_confound(result, out, typed) if out is not None else []
    if as_json:
        print_json(confound_json(result))
        return
    console().print(confound_page(result, typed), markup=False)
    if paths:
        console().print(f"page: {paths[0]}", soft_wrap=True)
