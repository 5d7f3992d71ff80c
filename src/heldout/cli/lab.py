"""heldout lab: experiments on copies we planted ourselves."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heldout.benchmark import read_benchmark
from heldout.cli import (
    lab_confound,
    lab_degrees,
    lab_leaks,
    lab_onnx,
    lab_power,
    lab_published,
    lab_train,
)
from heldout.cli.options import EngineName, Images, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.errors import InputError, require
from heldout.lab import (
    TRANSFORMS,
    TransformPlan,
    collect,
    judge_by_registration,
    keep_robustness,
    refuse_another_encoder,
    study_transforms,
    write_studies,
)
from heldout.overlap import NEAREST, Bounds, Encoder, degrees_of, open_encoder, parse_bounds, parts
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
app.command("leaks", epilog=lab_leaks.EXAMPLE)(lab_leaks.leaks_command)
app.command("published", epilog=lab_published.EXAMPLE)(lab_published.published_command)


class Side(StrEnum):
    query = "query"
    corpus = "corpus"


@app.command("transforms", epilog=EXAMPLE)
def transforms_command(
    bench: Annotated[str, typer.Argument(metavar="BENCH", help="Pictures to plant copies of.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for page and tables.")],
    encoder: Annotated[
        list[str], typer.Option("--encoder", metavar="E", help="Repeatable; default: pixels.")
    ] = ["pixels"],  # noqa: B006 - typer copies defaults
    queries: Annotated[
        int | None, typer.Option("--queries", min=1, help="Pictures to query with; default: all.")
    ] = None,
    side: Annotated[
        Side, typer.Option("--side", help="Transform the query (as published) or the corpus' copy.")
    ] = Side.corpus,
    only: Annotated[
        list[str], typer.Option("--transform", metavar="NAME", help="Only these; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    verify: Annotated[
        bool, typer.Option("--verify", help="Also let registration judge the nearest (slower).")
    ] = False,
    among: Annotated[
        list[str],
        typer.Option(
            "--among", metavar="CORPUS", help="Other pictures to search in as well; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    nearest: Annotated[
        int, typer.Option("--nearest", min=1, help="Shortlist of each picture, as in overlap.")
    ] = NEAREST,
    pairs: Annotated[
        int,
        typer.Option(
            "--pairs", min=0, help="With --verify: pairs of different pictures to judge, about."
        ),
    ] = 0,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="COLUMN", help="… that agree in this column (a modality)."),
    ] = None,
    degrees: Annotated[
        str | None,
        typer.Option(
            "--degrees",
            metavar="hard=H,soft=S",
            help="Also measure rates at these similarities; 'published' is hard=.98,soft=.95 (default: "
            "the degrees measured for each encoder).",
        ),
    ] = None,
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
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random draw.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How well are copies found after a flip, a crop, noise …? R@1, ROC and rates, per transform."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")
    shown_by = Run.open(run) if run is not None else None
    judge = None
    if verify:
        require("cv2", "vision", "judging pairs by registration")
        from heldout.overlap import cheap_features, register

        judge = judge_by_registration(register, prepare=cheap_features)
    bounds = parse_bounds(degrees) if degrees is not None else None
    plan = TransformPlan(
        transforms=only or tuple(TRANSFORMS),
        queries=queries,
        shortlist=nearest,
        pairs=pairs,
        group=group,
        side=side.value,
        seed=seed,
    )
    others = [open_corpus(source) for source in among]
    collection = collect(read_benchmark(bench, images=images), among=others, group=group)
    with open_engine(engine, workers) as chosen:
        studies = [
            study_transforms(
                collection,
                opened,
                replace(plan, degrees=_degrees(opened, bounds)),
                views=opened.encode_views,
                parts=parts,
                judge=judge,
                engine=chosen,
                quiet=quiet,
            )
            for opened in _opened(encoder, shown_by)
        ]
    command = shlex.join(["heldout", *sys.argv[1:]])
    paths = write_studies(studies, out, command=command)
    for folder in (out, *([shown_by.path] if shown_by is not None else [])):
        keep_robustness(studies, folder, command)
    if as_json:
        print_json([study.model_dump(mode="json") for study in studies])
        return
    console().print(paths[0].read_text(), markup=False)
    console().print(f"page: {paths[0]}", soft_wrap=True)
    if shown_by is not None:
        console().print(f"heldout report {shown_by.path} shows it now", soft_wrap=True)


def _degrees(encoder: Encoder, bounds: Bounds | None) -> dict[str, float] | None:
    """The degrees to measure: those asked for, or those of the table."""
    degrees = bounds or degrees_of(encoder.identity)
    return None if degrees is None else {"hard": degrees.hard, "soft": degrees.soft}


def _opened(names: list[str], shown_by: Run | None) -> Iterator[Encoder]:
    """One encoder at a time: some fill the memory."""
    for name in names:
        opened = open_encoder(name)
        if shown_by is not None:
            refuse_another_encoder(shown_by, opened.identity)
        yield opened
