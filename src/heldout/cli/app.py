"""The `heldout` command: verbs, and how errors reach the user."""

from __future__ import annotations

import sys

import typer

from heldout import __version__
from heldout.cli import (
    ask,
    check,
    demo,
    detect,
    gate,
    impact,
    lab,
    lab_confound,
    lab_train,
    matrix,
    model,
    overlap,
    report,
    sanitize,
    score,
)
from heldout.cli.show import complain
from heldout.errors import HeldoutError

app = typer.Typer(
    name="heldout",
    help="Is your benchmark still held out? Find which items leaked, and into what.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check", epilog=check.EXAMPLE)(check.check_command)
app.command("overlap", epilog=overlap.EXAMPLE)(overlap.overlap_command)
app.command("report", epilog=report.EXAMPLE)(report.report_command)
app.command("matrix", epilog=matrix.EXAMPLE)(matrix.matrix_command)
app.command("sanitize", epilog=sanitize.EXAMPLE)(sanitize.sanitize_command)
app.command("gate", epilog=gate.EXAMPLE)(gate.gate_command)
app.command("impact", epilog=impact.EXAMPLE)(impact.impact_command)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo_command)
app.command("score", epilog=score.EXAMPLE)(score.score_command)
app.command("ask", epilog=ask.EXAMPLE)(ask.ask_command)
app.command("detect", epilog=detect.EXAMPLE)(detect.detect_command)
lab.app.command("confound", epilog=lab_confound.EXAMPLE)(lab_confound.confound_command)
lab.app.command("train", epilog=lab_train.EXAMPLE)(lab_train.train_command)
app.add_typer(lab.app, name="lab")
app.add_typer(model.app, name="model")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"heldout {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Is your benchmark still held out? Find which items leaked, and into what."""


def main() -> None:
    """Exit codes: 0 fine, 1 the gate fired, 2 the user's input, 3 a missing prerequisite."""
    try:
        app()
    except HeldoutError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        complain("interrupted; what was finished is kept, run the same command to go on")
        sys.exit(130)
    except BrokenPipeError:  # `heldout check … | head`
        sys.stderr.close()
        sys.exit(141)
