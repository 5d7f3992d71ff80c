"""heldout cluster: what a Ray cluster can do, before a search is started on it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, plain, print_json
from heldout.engine import ClusterSettings, check_cluster, progress
from heldout.errors import PrerequisiteError

EXAMPLE = "Example: heldout cluster check --engine ray:10.0.0.7:6379"

app = typer.Typer(
    name="cluster", help="Look at a Ray cluster before searching on it.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    """Look at a Ray cluster before searching on it."""


@app.command("check", epilog=EXAMPLE)
@command(ClusterSettings, (Shown("timeout", "S"),))
def check_command(
    settings: ClusterSettings,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="ENGINE", help="ray:auto, ray:HOST:PORT or ray://HOST:PORT."
        ),
    ] = "ray:auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show nodes, cores, GPUs, versions and extras. Exits 3 if a run would fail or depend on the node."""
    with progress("asking the cluster", 1, "clusters", disabled=quiet or as_json) as step:
        report = check_cluster(engine, settings=settings)
        step()
    if as_json:
        print_json(report.as_json())
    else:
        out = console()
        out.print(Text(report.summary, "bold"), soft_wrap=True)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for title in ("node", "cores", "GPUs", "memory", "heldout", "Python", "Ray", "extras"):
            table.add_column(title, overflow="fold")
        for node in report.nodes:
            kinds = f" {', '.join(node.accelerators)}" if node.accelerators else ""
            table.add_row(
                plain(f"{node.name} {node.address}"),
                f"{node.cores:g}",
                f"{node.gpus:g}{kinds}",
                f"{node.memory_gib:,.0f} GiB",
                node.heldout or "none",
                node.python or "?",
                node.ray or "?",
                ", ".join(node.extras) or "none",
            )
        out.print(table)
    if report.problems:
        raise PrerequisiteError("; ".join(report.problems))
