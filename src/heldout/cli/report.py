"""heldout report: rebuild findings, claims and the page from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import conclude, renew_corrections
from heldout.cli.options import Json
from heldout.cli.show import console, print_claims, print_json
from heldout.report import (
    is_evaluation,
    is_synthesis,
    is_training,
    write_audit_report,
    write_evaluation_report,
    write_synthesis_report,
    write_training_report,
)
from heldout.store import Run

EXAMPLE = "Example: heldout report runs/slake"
#: runs of other commands than audits, and what writes their pages
_PAGES = (
    (is_synthesis, write_synthesis_report),
    (is_training, write_training_report),
    (is_evaluation, write_evaluation_report),
)


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
    if (run / "verdict.json").exists() and not (run / "manifest.json").exists():
        page = write_audit_report(run)
        if as_json:
            print_json({"report": str(page)})
            return
        console().print(f"report: {page}", soft_wrap=True)
        return
    opened = Run.open(run)
    write = next((write for is_one, write in _PAGES if is_one(opened)), None)
    if write is not None:
        with opened.writing():
            page = write(opened)
        if as_json:
            print_json({"report": str(page)})
            return
        console().print(f"report: {page}", soft_wrap=True)
        return
    with opened.writing():
        renew_corrections(opened)
        conclusion = conclude(opened)
    if as_json:
        print_json(conclusion.as_json())
        return
    print_claims(conclusion.claims)
    console().print(f"\nreport: {conclusion.report}", soft_wrap=True)
