"""heldout model: what an endpoint can do, found out before a benchmark is run on it."""

from __future__ import annotations

import shlex

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import console, plain, print_json
from heldout.detect import answer_detectors, supported_detectors
from heldout.engine import progress
from heldout.model import ProbedServer, probe
from heldout.model import as_json as capabilities_json

EXAMPLE = "Example: heldout model inspect http://localhost:8000/v1"

app = typer.Typer(
    name="model", help="Look at a model before scoring with it.", no_args_is_help=True
)


SHOWN = (
    Shown("url", "URL", argument=True),
    Shown("model", "NAME"),
    Shown("api_key_env", "VAR"),
    Shown("timeout", "S"),
)


@app.command("inspect", epilog=EXAMPLE)
@command(ProbedServer, SHOWN)
def inspect_command(settings: ProbedServer, quiet: Quiet = False, as_json: Json = False) -> None:
    """Show which detectors an endpoint supports, and what the others lack, by three tiny requests."""
    with progress("asking the server", 1, "servers", disabled=quiet) as step:
        can = probe(settings.connect(), settings.model)
        step()
    enabled, answering = supported_detectors(can), answer_detectors()
    command = _ask_command(settings, can.model)
    if as_json:
        detectors = [entry._asdict() for entry in enabled]
        record = {"url": settings.url, **capabilities_json(can), "detectors": detectors}
        answers = [entry._asdict() for entry in answering]
        print_json({**record, "answer_detectors": answers, "ask": command})
        return
    out = console()
    out.print(Text(plain(f"{can.model}, served by {can.server}")))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    abilities = {"answers": can.chat, "pictures": can.images, "documents": can.completions}
    for name, ability in abilities.items():
        table.add_row(name, _word(ability.works), Text(plain(ability.reason), "dim"))
    table.add_row()
    for entry in enabled:
        table.add_row(entry.detector, _word(entry.enabled), Text(plain(entry.reason), "dim"))
    out.print(table)
    out.print("\nfrom answers alone, which every server gives that replies; what to ask for:")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    for entry in answering:
        table.add_row(entry.detector, Text(plain(entry.reason), "dim"))
    out.print(table)
    out.print(Text(f"\n{plain(command)}", "cyan"), soft_wrap=True)
    out.print(Text("with twins (heldout twin): add twin=TWINS to the variants", "dim"))


def _ask_command(settings: ProbedServer, model: str) -> str:
    """The value that selects all variants without further input."""
    words = ["heldout", "ask", "BENCH", "--endpoint", settings.url, "--model", model]
    words += ["--api-key-env", settings.api_key_env] if settings.api_key_env else []
    words += ["--variants", "original,shuffle-1..3,confused-choices,no-image", "--out", "RUN"]
    return shlex.join(words)


def _word(works: bool) -> Text:
    return Text("yes", "green") if works else Text("no", "red")
