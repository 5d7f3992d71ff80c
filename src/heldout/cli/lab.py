"""heldout lab: experiments on planted copies."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.benchmark import read_benchmark
from heldout.cli import lab_models, lab_published
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import EngineName, Images, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.engine import progress
from heldout.errors import InputError, require
from heldout.lab import (
    ConfoundSettings,
    DegreeSettings,
    LeakSettings,
    TransformSettings,
    confound_json,
    confound_page,
    degrees_page,
    measure_degrees,
    run_transforms,
    study_confound,
    write_confound,
)
from heldout.overlap import parse_bounds
from heldout.store import Run, write_json

EXAMPLE = (
    "Example: heldout lab transforms data/vqa_rad#split=test --queries 60 --out runs/transforms"
)

app = typer.Typer(help="Experiments on copies we planted ourselves.", no_args_is_help=True)
app.command("train", epilog=lab_models.TRAIN_EXAMPLE)(lab_models.train_command)
app.command("onnx", epilog=lab_models.ONNX_EXAMPLE)(lab_models.onnx_command)
app.command("power", epilog=lab_models.POWER_EXAMPLE)(lab_models.power_command)
app.command("conform", epilog=lab_models.EXAMPLE)(lab_models.conform_command)
app.command("leaderboard", epilog=lab_models.BOARD_EXAMPLE)(lab_models.leaderboard_command)
app.command("published", epilog=lab_published.EXAMPLE)(lab_published.published_command)

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


# heldout lab leaks: planted leaks of every kind, and which of them the overlap audit finds.


LEAKS_EXAMPLE = "Example: heldout lab leaks --seeds 2 --out runs/leaks"
LEAKS_SHOWN = (
    Shown("seeds"),
    Shown("worlds", "NAME", flag="--world"),
    Shown("each"),
    Shown("reworded"),
    Shown("items"),
    Shown("encoder", "E"),
    Shown("nearest"),
    Shown("text_encoder", "E"),
)


@app.command("leaks", epilog=LEAKS_EXAMPLE)
@command(LeakSettings, LEAKS_SHOWN)
def leaks_command(
    settings: LeakSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for corpora, runs, page and rows.")
    ],
    publish: Annotated[
        Path | None,
        typer.Option("--publish", metavar="DIR", help="Write the page and data/ there, too."),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Plant leaks of every kind and decoys, run the overlap audit, and count what it finds of each kind.

    What is finished is not computed again: give the same command to go on, or more --seeds to add some.
    """
    require("cv2", "vision", "telling copies from look-alikes")
    from heldout.engine import open_engine
    from heldout.lab import leak_board, run_leaks, summary, write_leaks, write_sheets

    for folder in (out, *([publish] if publish else [])):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; --out and --publish need the name of a folder")

    def tell(text: str) -> None:
        if not quiet and not as_json:
            console().print(text, markup=False)

    with open_engine(engine, workers) as chosen:
        rows = run_leaks(out, settings, chosen, tell, quiet=quiet)
    board = leak_board(rows)
    typed = shlex.join(["heldout", *sys.argv[1:]])
    sheets = write_sheets(rows, out)
    for folder in (out, *([publish] if publish else [])):
        paths = write_leaks(rows, board, settings, folder, typed)
    if as_json:
        print_json(board.model_dump(mode="json"))
        return
    for where, kind, share, people in summary(board):
        left = f", left to people {people}" if people else ""
        console().print(f"{where}: {kind}: {share}{left}", markup=False, soft_wrap=True)
    for sheet in sheets:
        console().print(f"to look at: {sheet}", soft_wrap=True)
    console().print(f"page: {paths[0]}", soft_wrap=True)


# heldout lab degrees: which similarities are hard and soft for an encoder.


DEGREES_EXAMPLE = (
    "Example: heldout lab degrees data/slake/images data/vqa_rad/images --encoder pixels"
)


@app.command("degrees", epilog=DEGREES_EXAMPLE)
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


# heldout lab confound: which models of a clean cohort are flagged.


CONFOUND_EXAMPLE = "Example: heldout lab confound --out runs/confound"
CONFOUND_SHOWN = (
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


@app.command("confound", epilog=CONFOUND_EXAMPLE)
@command(ConfoundSettings, CONFOUND_SHOWN)
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
