"""What a forge shows beside a commit: annotations as GitHub reads them, and a JUnit file of a check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heldout.cli.show import plain, with_shared_options
from heldout.errors import counted

if TYPE_CHECKING:
    from heldout.benchmark import CheckReport
    from heldout.cure import GateResult

Level = Literal["error", "warning", "notice"]
Annotate = Annotated[
    bool,
    typer.Option(
        "--annotate", help="Also print what was found as annotations of a GitHub workflow."
    ),
]
_LEVELS: dict[str, Level] = {"error": "error", "warning": "warning", "note": "notice"}


def annotation(level: Level, title: str, message: str, file: str = "") -> str:
    """One line that a GitHub workflow turns into an annotation.

    Texts come from datasets: a line break inside one must not begin a command of its own.
    """
    properties = {"title": title, "file": file}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def annotate_check(report: CheckReport) -> None:
    """One annotation per rule; its file is the benchmark's, where that is a file."""
    source = report.source.split("#")[0]
    file = source if Path(source).is_file() else ""
    for problem in report.problems:
        text = with_shared_options(f"{problem.message}\n{problem.advice}")
        title = f"heldout check: {problem.rule}"
        typer.echo(annotation(_LEVELS[problem.severity], title, text, file))


def annotate_gate(gate: GateResult) -> None:
    """One annotation per benchmark: an error where training rows hold it, a warning where it is open."""
    for summary in gate.protected:
        title = f"heldout gate: {summary.benchmark}"
        if summary.leaked:
            rows = counted(summary.rows, "training row holds", "training rows hold")
            text = (
                f"{rows} {summary.leaked:,} of {summary.items:,} items of "
                f"{summary.benchmark}; the rows are in {gate.files['ids']}"
            )
            typer.echo(annotation("error", title, text))
        for text in summary.problems:
            typer.echo(annotation("error", title, text))
        if summary.doubtful:
            text = (
                f"{summary.doubtful:,} more items may be in the training set: "
                f"{gate.files['doubtful']} lists them"
            )
            typer.echo(annotation("warning", title, text))


def check_junit(reports: Sequence[CheckReport]) -> bytes:
    """One test case per rule that says something; only errors fail, the others are skipped."""
    from heldout.cure import JunitCase, junit

    cases = []
    for report in reports:
        for problem in report.problems:
            name = f"{report.benchmark}: {problem.rule}"
            if problem.severity == "error":
                detail = "\n".join([problem.advice, *problem.examples])
                cases.append(JunitCase(name, (problem.message, detail), None))
            else:
                text = f"{problem.severity}: {problem.message}"
                cases.append(JunitCase(name, None, None, text))
        if not report.problems:
            cases.append(JunitCase(f"{report.benchmark}: no problems found", None, None))
    return junit("heldout check", cases)
