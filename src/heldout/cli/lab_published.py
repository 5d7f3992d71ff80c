"""heldout lab published: the map of claims of a published audit, its statuses beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heldout.benchmark import read_benchmark
from heldout.cli.options import Images, Json, Quiet
from heldout.cli.show import COLOURS, console, plain, print_json
from heldout.engine import progress
from heldout.verdict import PublishedMap, Reading, published_map

EXAMPLE = "Example: heldout lab published golden/medvlm --benchmark data/slake#split=test,lang=en"


def published_command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The result tables that the audit published.")
    ],
    benchmark: Annotated[
        str | None,
        typer.Option(
            "--benchmark",
            metavar="BENCH",
            help="SLAKE-En test, to read its order claims from the published per-item scores.",
        ),
    ] = None,
    images: Images = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read the published claims-to-evidence map again by our rules, and say where the two differ."""
    bench = read_benchmark(benchmark, images=images) if benchmark is not None else None
    with progress("reading the published tables", 1, "audits", disabled=quiet) as step:
        result = published_map(folder, bench)
        step()
    if as_json:
        print_json({"folder": str(folder), **result.as_json()})
        return
    _show(result)


def _show(result: PublishedMap) -> None:
    out = console()
    for claim in result.claims:
        line = Text(f"\n{claim.claim.number}. {claim.claim.sentence}", "bold")
        line.append("\n   published ", "dim").append(_status(claim.claim.published))
        line.append(", ours ", "dim").append(Text(", ").join(map(_status, claim.ours)))
        line.append("" if claim.agrees else "  differs", "bold")
        out.print(line)
        out.print(_cells(claim.readings))
    if result.others:
        out.print(Text("\nCells that no claim of the map rests on", "bold"))
        out.print(_cells(result.others))
    if result.remarks:
        out.print(Text("\nWhat the tables themselves show", "bold"))
        for remark in result.remarks:
            message = f"{plain(remark.where)} ({remark.kind}): {plain(remark.sentence)}."
            out.print(Padding(Text(message), (0, 0, 0, 3)))
    agree = sum(claim.agrees for claim in result.claims)
    out.print(
        Text(
            f"\n{agree} of {len(result.claims)} claims have the published status in every cell.",
            "bold",
        )
    )
    if not result.items_read:
        message = (
            "Order claims on SLAKE-En are read from p-values alone; --benchmark reads its items."
        )
        out.print(Text(message, "dim"))


def _status(status: str) -> Text:
    return Text(status, COLOURS.get(status, "cyan"))


def _cells(readings: list[Reading]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 3), pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for reading in readings:
        mark = Text("" if reading.agrees else f"{reading.published} →", "dim")
        why = Text(f"{reading.kind}, {plain(reading.benchmark)}: {plain(reading.on)}")
        why.append(f"\n{plain(reading.why)} ({reading.rule})", "dim")
        table.add_row(" ", mark, _status(reading.ours), why)
    return table
