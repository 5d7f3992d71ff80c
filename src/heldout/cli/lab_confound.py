"""heldout lab confound: a cohort in which nobody has seen anything, and who gets flagged."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.options import Json
from heldout.cli.show import console, print_json
from heldout.lab import (
    GAINS,
    SEED,
    Confound,
    confound_json,
    confound_page,
    study_confound,
    write_confound,
)

EXAMPLE = "Example: heldout lab confound --out runs/confound"


def confound_command(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for page and figures.")
    ] = None,
    items: Annotated[int, typer.Option("--items", help="Items of the benchmark.")] = 1061,
    closed: Annotated[int, typer.Option("--closed", help="Of them, closed questions.")] = 424,
    closed_scale: Annotated[
        float, typer.Option("--closed-scale", help="Mean easiness of closed questions.")
    ] = 900.0,
    noise: Annotated[float, typer.Option("--noise", help="Standard deviation of the noise.")] = 2.0,
    gain: Annotated[
        list[float], typer.Option("--gain", help="Gain of one model; repeatable.")
    ] = list(GAINS),  # noqa: B006 - typer copies defaults
    offset: Annotated[
        list[float], typer.Option("--offset", help="Offset of one model; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    low_gain: Annotated[
        float, typer.Option("--low-gain", help="Gain of outliers in the sweep.")
    ] = 0.05,
    high_gain: Annotated[
        float, typer.Option("--high-gain", help="Gain of probe and anchors.")
    ] = 1.0,
    outliers: Annotated[int, typer.Option("--outliers", min=0, help="Most outliers.")] = 4,
    repeats: Annotated[int, typer.Option("--repeats", help="Draws per cohort in the sweep.")] = 200,
    tail: Annotated[
        float, typer.Option("--tail", help="Δ above which an item is in the tail.")
    ] = 100.0,
    flag: Annotated[
        float, typer.Option("--flag", help="Tail rate above which it is flagged.")
    ] = 0.05,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random draw.")] = SEED,
    as_json: Json = False,
) -> None:
    """Show how a cohort's median flags clean models: the published Appendix B, constants as flags."""
    settings = Confound(
        items=items,
        closed=closed,
        closed_scale=closed_scale,
        noise=noise,
        gains=tuple(gain),
        offsets=tuple(offset),
        low_gain=low_gain,
        high_gain=high_gain,
        most_outliers=outliers,
        repeats=repeats,
        tail=tail,
        flag=flag,
        seed=seed,
    )
    result = study_confound(settings)
    command = shlex.join(["heldout", *sys.argv[1:]])
    paths = write_confound(result, out, command) if out is not None else []
    if as_json:
        print_json(confound_json(result))
        return
    console().print(confound_page(result, command), markup=False)
    if paths:
        console().print(f"page: {paths[0]}", soft_wrap=True)
