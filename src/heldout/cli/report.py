"""heldout report: rebuild findings, claims and the page from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import report_run
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet, Verbose
from heldout.cli.show import console, print_claims, print_json, print_outline
from heldout.errors import InputError, counted
from heldout.report import ReportSettings, claims_with_paths, outline_of, outline_of_audit
from heldout.store import Run, compared_with_record, is_run

EXAMPLE = "Example: heldout report runs/slake"


@command(ReportSettings, (Shown("megabytes"), Shown("texts"), Shown("items"), Shown("summary")))
def report_command(
    settings: ReportSettings,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or the output of an audit.")
    ],
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Only say which tables and documents are as the run recorded them (exit code 2: one is not).",
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Rebuild findings, claims and report.html from the tables of a run; nothing is read again.

    For a synthesis this rebuilds the page and the dataset card, for a training
    the page and the model card, for an evaluation its page.

    For the output of an audit it rebuilds the page over all benchmarks; run
    heldout audit again to include judgements that people made since.

    --summary also writes one page to send on, as HTML and as PDF.
    """
    if verify:
        _verify(run, as_json)
        return
    report = report_run(run, settings=settings, quiet=quiet)
    if as_json:
        print_json(report.as_json())
        return
    if report.conclusion is not None and report.run is not None:
        print_outline(outline_of(report.run))
        console().print()
        if verbose:
            print_claims(claims_with_paths(report.conclusion.claims, report.run))
            console().print()
    elif report.run is None:
        print_outline(outline_of_audit(run))
        console().print()
    console().print(f"report: {report.page}", soft_wrap=True)
    if settings.summary:
        summary = report.page.with_name("summary.pdf")
        console().print(f"summary: {summary}, and summary.html", soft_wrap=True)


def _verify(folder: Path, as_json: bool) -> None:
    """Say of each table and document of a run, or of all runs in ``folder``, whether it is as recorded."""
    runs = [path.parent for path in sorted(folder.rglob("manifest.json")) if is_run(path.parent)]
    faults = {
        str(run / name): fault
        for run in runs or [Run.open(folder).path]
        for name, fault in compared_with_record(run).items()
    }
    if as_json:
        print_json({"files": {name: fault or "as recorded" for name, fault in faults.items()}})
    else:
        for name, fault in faults.items():
            console().print(f"{name} {fault or 'is as recorded'}", soft_wrap=True, markup=False)
    if wrong := sum(map(bool, faults.values())):
        raise InputError(
            f"{counted(wrong, 'file', 'files')} of {len(faults):,} in {folder} not as recorded: "
            f"run the command again that wrote the run, or get the folder again"
        )
