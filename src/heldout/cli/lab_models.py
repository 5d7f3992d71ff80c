"""heldout lab train, onnx, power, conform and leaderboard: models whose contamination is known, and detectors."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet, Revision, Seed, TrustRemoteCode
from heldout.cli.show import complain, console, plain, print_json
from heldout.engine import progress
from heldout.errors import InputError, require
from heldout.lab import ConformSettings, GridSettings, PowerSettings, export_onnx

EXAMPLE = "Example: heldout lab conform heldout-halves --out results/heldout-halves.json"
BOARD_EXAMPLE = (
    "Example: heldout lab leaderboard docs/results/*.json --rows docs/data/detector-power.parquet "
    "--publish docs"
)
SHOWN = (
    Shown("cells"),
    Shown("power_cells"),
    Shown("doses", "D", flag="--dose"),
    Shown("permutations"),
    Shown("seed"),
)


@command(ConformSettings, SHOWN)
def conform_command(
    settings: ConformSettings,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE",
            help="An installed package with detectors, a module, module:NAME, a file that ends with .py, "
            "the name of a detector, or heldout.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the results for the leaderboard there."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            metavar="PARQUET",
            help="Rows of trained models that heldout lab power wrote, to put into the file.",
        ),
    ] = None,
    authors: Annotated[
        str, typer.Option("--authors", help="Who made it, for the leaderboard.")
    ] = "",
    url: Annotated[str, typer.Option("--url", help="Where it is, for the leaderboard.")] = "",
    note: Annotated[str, typer.Option("--note", help="A sentence about these results.")] = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Does a detector hold what heldout requires of its own? Exits with 1 if it fails a requirement."""
    from heldout.lab import conform_all, find_package, results_of
    from heldout.store import write_json

    held = find_package(package)
    tested = []
    steps = 5 * len(held.detectors)
    with progress(f"requirements on {held.name}", steps, "checks", disabled=quiet) as step:
        for detector, conformance in conform_all(held, settings, lambda _: step(1)):
            tested.append((detector, conformance))
    results = results_of(
        held,
        tested,
        rows=rows,
        authors=authors,
        url=url,
        note=note,
        command=shlex.join(["heldout", *sys.argv[1:]]),
    )
    if out is not None:
        write_json(out, results.model_dump(mode="json"))
    if as_json:
        print_json(results.model_dump(mode="json"))
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("detector", "requirement", "result", "detail"):
            table.add_column(name, overflow="fold")
        for detector, conformance in tested:
            for place, check in enumerate(conformance.checks):
                style = "green" if check.passed else "bold red"
                table.add_row(
                    "" if place else detector.name,
                    check.requirement,
                    Text("passed" if check.passed else "failed", style),
                    plain(check.detail),
                )
        console().print(table)
        if out is not None:
            console().print(f"\nresults: {out}", soft_wrap=True)
    if not all(conformance.passed for _, conformance in tested):
        raise typer.Exit(1)


def leaderboard_command(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS", help="Files that heldout lab conform --out wrote."),
    ],
    rows: Annotated[
        Path,
        typer.Option(
            "--rows",
            metavar="PARQUET",
            help="Rows of trained models that heldout lab power wrote: detector-power.parquet.",
        ),
    ],
    publish: Annotated[
        Path, typer.Option("--publish", metavar="DIR", help="Write page and figures/ there.")
    ],
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the leaderboard of detectors: ours, and those of everybody who sent results."""
    import polars as pl

    from heldout.errors import InputError
    from heldout.lab import read_results, write_leaderboard

    if not rows.is_file():
        raise InputError(f"--rows {rows}: there is no such file")
    typed = shlex.join(["heldout", *sys.argv[1:]])
    packages = [read_results(path) for path in results]
    page, card = write_leaderboard(pl.read_parquet(rows), packages, publish, typed, seed)
    if not quiet:
        console().print(f"page: {page}\ncard: {card}", soft_wrap=True)


# heldout lab power: every detector over the grid of models whose contamination is known.


POWER_EXAMPLE = "Example: heldout lab power runs/lab --out runs/power"
POWER_SHOWN = (
    Shown("detectors", "NAME", flag="--detector"),
    Shown("ways", "WAY", flag="--way"),
    Shown("drawn"),
    Shown("permutations"),
    Shown("seed"),
)


@command(PowerSettings, POWER_SHOWN)
def power_command(
    settings: PowerSettings,
    lab: Annotated[
        Path, typer.Argument(metavar="LAB", help="What heldout lab train wrote, or its runs.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for results, page and figure.")
    ],
    publish: Annotated[
        Path | None,
        typer.Option("--publish", metavar="DIR", help="Write page, figures/ and data/ there."),
    ] = None,
    rates_to: Annotated[
        Path | None,
        typer.Option(
            "--rates-to",
            metavar="FILE",
            help="Write the rates for heldout detect --rates there, too.",
        ),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            metavar="FILE",
            help="An earlier detector-power.parquet: keep its benchmarks that this grid lacks.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Score every detector against planted truth: power, false positives, smallest dose, cost.

    What is finished is not computed again: give the same command to go on.
    """
    from heldout.lab import (
        read_grid,
        requirements,
        run_power,
        standings,
        with_earlier,
        with_truth,
        write_power,
    )
    from heldout.store import write_atomic

    for folder in (out, *([publish] if publish else [])):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; --out and --publish need the name of a folder")
    if rates_to is not None and (settings.detectors or settings.ways != PowerSettings().ways):
        raise InputError(
            "--rates-to needs every detector in every way: leave --detector and --way out"
        )
    grid = read_grid(lab)

    def tell(text: str) -> None:
        if not quiet:
            console().print(text, markup=False)

    rows = run_power(grid, out, settings, tell)
    rows, about = with_truth(rows, grid), grid.about
    if earlier is not None:
        rows, kept = with_earlier(rows, earlier)
        about = replace(about, earlier=kept)
    board = standings(rows, settings.seed)
    if not board:
        raise InputError(f"{lab}: no detector could be tested on any model of this grid")
    typed = shlex.join(["heldout", *sys.argv[1:]])
    required, folder = requirements(rows, board), publish or out
    paths = write_power(rows, board, required, folder, typed, about)
    if rates_to is not None:
        write_atomic(rates_to, paths[-1].read_bytes())
    console().print(f"page: {paths[0]}", soft_wrap=True)


# heldout lab train: small models whose contamination is known, and their tables.


TRAIN_EXAMPLE = (
    "Example: heldout lab train --out runs/lab --size toy --base scenes0 --arm scenes0-d1 --images 4 "
    "--steps 20 --pictures 40"
)
TRAIN_SHOWN = (
    Shown("bases", "NAME", flag="--base"),
    Shown("arms", "NAME", flag="--arm"),
    Shown("keeps", "NAME", flag="--keep"),
    Shown("size", "small|medium|larger|toy"),
    Shown("images"),
    Shown("pictures"),
    Shown("steps"),
    Shown("batch"),
    Shown("real", "PATH"),
    Shown("device"),
    Shown("minutes"),
    Shown("seed"),
)


@command(GridSettings, TRAIN_SHOWN)
def train_command(
    settings: GridSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for models, readings and runs.")
    ],
    quiet: Quiet = False,
) -> None:
    """Train a grid of small vision-language models with planted leaks, and score and ask every one.

    What is finished is not trained again: give the same command to go on.
    """
    require("torch", "hf", "training the lab's models")
    from heldout.lab import train_grid

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")

    def tell(text: str) -> None:
        if not quiet:
            console().print(text, markup=False)

    finished = train_grid(out, settings, tell=tell)
    if not finished:
        console().print("the minutes ran out; give the same command again to go on")
    console().print(f"models: {out / 'runs' / 'models.json'}", soft_wrap=True)
    console().print(f"next: heldout detect {out / 'runs' / 'scenes'}", soft_wrap=True)


# heldout lab onnx: a checkpoint as a folder of ONNX graphs, which runs without torch.


ONNX_EXAMPLE = "Example: heldout lab onnx models/llava-small --out models/llava-small-onnx"


def onnx_command(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A LLaVA-style folder or hub name.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the graphs.")],
    revision: Revision = None,
    trust: TrustRemoteCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Export vision tower, projector and decoder as ONNX graphs, and compare them with the checkpoint.

    `heldout score` and `heldout ask` read the folder as --model onnx:FOLDER.
    """
    silent = quiet or as_json
    card = export_onnx(
        checkpoint,
        out,
        revision=revision,
        trust_remote_code=trust,
        tell=(lambda _: None) if silent else complain,
    )
    if as_json:
        print_json({"folder": str(out), **card.model_dump(mode="json")})
        return
    console().print(
        f"{out}: log-probabilities at most {card.largest_difference:.1e} from the checkpoint's; weights "
        f"stored in {card.stored}, calculated in float32",
        soft_wrap=True,
        markup=False,
    )
    console().print(
        f"next: heldout score BENCH --model onnx:{out} --out RUN", soft_wrap=True, markup=False
    )
