"""heldout report: rebuild findings, claims and the page from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import report_run
from heldout.cli.options import Json
from heldout.cli.show import console, print_claims, print_json

EXAMPLE = "Example: heldout report runs/slake"


def report_command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or the output of an audit.")
    ],
    as_json: Json = False,
) -> None:
    """Rebuild findings, claims and report.html from the tables of a run; nothing is read again.

    Of a synthesis the page and the dataset card are rebuilt, of a training the page and the model card,
    of an evaluation its page.
    Of an audit's output the page over all benchmarks is rebuilt; what people judged since is taken in
    by the same heldout audit again.
    """
    made = report_run(run)
    if as_json:
        print_json(made.as_json())
        return
    if made.conclusion is not None:
        print_claims(made.conclusion.claims)
        console().print()
    console().print(f"report: {made.page}", soft_wrap=True)
