"""heldout lab: experiments on planted copies."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.benchmark import read_benchmark
from heldout.cli import (
    lab_conform,
    lab_confound,
    lab_degrees,
    lab_leaks,
    lab_onnx,
    lab_power,
    lab_train,
)
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import EngineName, Images, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.lab import TransformSettings, run_transforms
from heldout.overlap import parse_bounds
from heldout.store import Run

EXAMPLE = (
    "Example: heldout lab transforms data/vqa_rad#split=test --queries 60 --out runs/transforms"
)

app = typer.Typer(help="Experiments on copies we planted ourselves.", no_args_is_help=True)
app.command("confound", epilog=lab_confound.EXAMPLE)(lab_confound.confound_command)
app.command("degrees", epilog=lab_degrees.EXAMPLE)(lab_degrees.degrees_command)
app.command("train", epilog=lab_train.EXAMPLE)(lab_train.train_command)
app.command("onnx", epilog=lab_onnx.EXAMPLE)(lab_onnx.onnx_command)
app.command("power", epilog=lab_power.EXAMPLE)(lab_power.power_command)
app.command("conform", epilog=lab_conform.EXAMPLE)(lab_conform.conform_command)
app.command("leaderboard", epilog=lab_conform.BOARD_EXAMPLE)(lab_conform.leaderboard_command)
app.command("leaks", epilog=lab_leaks.EXAMPLE)(lab_leaks.leaks_command)

SHOWN = (
    Shown("encoders", "E", flag="--encoder"),
    Shown("queries"),
    Shown("side", "query|corpus"),
    Shown("transforms", "NAME", flag="--transform"),
    Shown("verify"),
    Shown("among", "CORPUS"),
    Shown("nearest"),
    Shown("pairs"),
    Shown("group", "COLUMN"),
    Shown(
        "degrees",
        "hard=H,soft=S",
        help="Also measure rates at these similarities; 'published' is hard=.98,soft=.95 (default: "
        "the degrees measured for each encoder).",
        convert=lambda text: parse_bounds(text)._asdict(),
    ),
    Shown("seed"),
)


@app.command("transforms", epilog=EXAMPLE)
@command(TransformSettings, SHOWN)
def transforms_command(
    settings: TransformSettings,
    bench: Annotated[str, typer.Argument(metavar="BENCH", help="Images to plant copies of.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for page and tables.")],
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A run folder of overlap whose report is to show the result.",
        ),
    ] = None,
    images: Images = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How well are copies found after a flip, a crop, noise …? R@1, ROC and rates, per transform."""
    searched = Run.open(run) if run is not None else None
    studies, page = run_transforms(
        read_benchmark(bench, images=images),
        out,
        settings,
        run=searched,
        engine=engine,
        workers=workers,
        command=shlex.join(["heldout", *sys.argv[1:]]),
        quiet=quiet,
    )
    if as_json:
        print_json([study.model_dump(mode="json") for study in studies])
        return
    console().print(page.read_text(), markup=False)
    console().print(f"page: {page}", soft_wrap=True)
    if searched is not None:
        console().print(f"heldout report {searched.path} shows it now", soft_wrap=True)
