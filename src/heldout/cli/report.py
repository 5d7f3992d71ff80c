"""heldout report: rebuild findings, claims and the page from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import conclude
from heldout.audit.corrections import renew_corrections
from heldout.cli.options import Json
from heldout.cli.show import console, print_claims, print_json
from heldout.store import Run

EXAMPLE = "Example: heldout report runs/slake"


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    as_json: Json = False,
) -> None:
    """Rebuild findings, claims and report.html from the tables of a run; nothing is read again."""
    opened = Run.open(run)
    with opened.writing():
        renew_corrections(opened)
        conclusion = conclude(opened)
    if as_json:
        print_json(conclusion.as_json())
        return
    print_claims(conclusion.claims)
    console().print(f"\nreport: {conclusion.report}", soft_wrap=True)
