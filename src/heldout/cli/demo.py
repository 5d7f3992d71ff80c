"""heldout demo: the whole path on a benchmark and a leaky corpus that it renders itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.audit import DemoResult, run_demo
from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import console, print_check, print_claims, print_json
from heldout.engine import open_engine

EXAMPLE = "Example: heldout demo --out heldout-demo"


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="New folder for data, run and report.")
    ] = Path("heldout-demo"),
    seed: Annotated[int, typer.Option("--seed", help="Another seed renders another world.")] = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Render a small benchmark and a corpus with planted leaks, audit it, and show the report."""
    with open_engine(engine, workers) as chosen:
        result = run_demo(out, chosen, seed=seed, quiet=quiet)
    if as_json:
        planted = [asdict(row) for row in result.planted]
        print_json({**result.conclusion.as_json(), "planted": planted})
        return
    _show(result)


def _show(result: DemoResult) -> None:
    out = console()
    out.rule("1  the benchmark", align="left")
    print_check(result.check)
    out.rule("2  what was planted, and what was found", align="left")
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("what")
    table.add_column("in the corpus as")
    table.add_column("planted", justify="right")
    table.add_column("called a copy", justify="right")
    for row in result.planted:
        right = row.found == (row.planted if row.group == "leak" else 0)
        style = "green" if right else "bold red"
        found = Text(f"{row.found}", style if row.group != "blind spot" else "yellow")
        table.add_row(row.group, row.kind, str(row.planted), found)
    out.print(table)
    out.print("blind spots (of exact matching) are copies with other pixels; decoys are no copies")
    out.rule("3  the verdict", align="left")
    print_claims(result.conclusion.claims)
    out.print(f"\nreport: {result.conclusion.report}", soft_wrap=True)
