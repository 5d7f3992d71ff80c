"""heldout plan: what a search would cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from heldout.audit import CostPlan, plan_search
from heldout.benchmark import read_benchmark
from heldout.cli.from_settings import command
from heldout.cli.options import Bench, Images, Json, Map, Preset, Quiet, Reader, parse_map
from heldout.cli.overlap import SHOWN
from heldout.cli.show import console, plain, print_json
from heldout.engine import progress
from heldout.errors import counted
from heldout.overlap import OverlapSettings

EXAMPLE = "Example: heldout plan data/vqa_rad --against data/vqa_med_2019 --on machines.yaml"
_HIDDEN = ("part", "judge", "alpha", "cluster_column", "second_encoders", "embeddings", "degrees")


@command(OverlapSettings, tuple(entry for entry in SHOWN if not entry.setting.startswith(_HIDDEN)))
def plan_command(
    settings: OverlapSettings,
    bench: Bench,
    against: Annotated[
        list[str],
        typer.Option(
            "--against", metavar="[NAME=]CORPUS", help="What it may have leaked into; repeatable."
        ),
    ],
    on: Annotated[
        Path | None,
        typer.Option(
            "--on", metavar="SPEC", help="YAML file that describes the machines; default: this one."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="How long to measure on each corpus.")
    ] = 20.0,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what heldout overlap would cost: bytes, hours and dollars of every stage, from a short measurement."""
    benchmark = read_benchmark(
        bench, preset=preset, mapping=parse_map(mapping), images=images, reader=reader
    )
    with progress("measuring", 1, "searches", disabled=quiet or as_json) as step:
        plan = plan_search(benchmark, against, on, seconds=seconds, settings=settings)
        step()
    if as_json:
        print_json(plan.as_json())
        return
    _show(plan)


def _show(plan: CostPlan) -> None:
    priced = plan.dollars is not None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("corpus", "stage"):
        table.add_column(title)
    for title in ("work", "read", "core time", "time", *(["dollars"] if priced else [])):
        table.add_column(title, justify="right")
    table.add_column("limited by")
    for stage in plan.stages:
        price = [f"{stage.dollars or 0:,.2f}"] if priced else []
        table.add_row(
            plain(stage.corpus),
            stage.stage,
            f"{stage.units:,.0f} {stage.unit}",
            _bytes(stage.bytes),
            _time(stage.core_hours),
            _time(stage.hours),
            *price,
            stage.limited_by,
        )
    price = [f"{plan.dollars:,.2f}"] if plan.dollars is not None else []
    core_hours = sum(stage.core_hours for stage in plan.stages)
    table.add_row("", "all", "", _bytes(plan.bytes), _time(core_hours), _time(plan.hours), *price)
    out = console()
    out.print(table)
    for name, sample in plan.samples.items():
        out.print(
            f"\n{plain(name)}: about {sample.total_items:,.0f} items; {sample.measured:,} of them, from "
            f"{sample.looked_at:,} of {counted(sample.shards, 'piece', 'pieces')} of the corpus, were measured",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )


def _bytes(size: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size / 1e3:,.0f} kB" if size else ""


def _time(hours: float) -> str:
    if hours < 1 / 60:
        return f"{3600 * hours:,.1f} s"
    return f"{60 * hours:,.0f} min" if hours < 2 else f"{hours:,.1f} h"
