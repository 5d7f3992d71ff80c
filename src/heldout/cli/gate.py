"""heldout gate: training rows that overlap a benchmark make it fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.annotations import Annotate, annotate_gate
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, print_json, with_shared_options
from heldout.cure import GateResult, GateSettings, write_gate

EXAMPLE = "Example: heldout gate runs/slake runs/vqa-rad --clean --out gate"


@command(GateSettings, (Shown("strict"), Shown("clean"), Shown("allow_unread", "KIND")))
def gate_command(
    settings: GateSettings,
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Runs of several benchmarks against one training set."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")],
    annotate: Annotate = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Which training rows to remove so that none of these benchmarks leaks. Exits 1 if there are any."""
    gate = write_gate(runs, out, settings=settings)
    if as_json:
        print_json(gate.as_json())
    show_gate(gate, quiet=as_json, annotate=annotate and not as_json)


def show_gate(gate: GateResult, *, quiet: bool, annotate: bool = False) -> None:
    """Print what the gate found; exit with 1 unless it passed."""
    if not quiet:
        console().print(
            with_shared_options(gate.sentence()), soft_wrap=True, highlight=False, markup=False
        )
    if annotate:
        annotate_gate(gate)
    if not gate.passed:
        raise typer.Exit(1)
