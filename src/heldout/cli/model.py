"""heldout model: what an endpoint can do, found out before a benchmark is run on it."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json
from heldout.cli.show import console, plain, print_json
from heldout.detect import supported_detectors
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
def inspect_command(settings: ProbedServer, as_json: Json = False) -> None:
    """Show which detectors an endpoint supports, and what the others lack, by three tiny requests."""
    can = probe(settings.connect(), settings.model)
    enabled = supported_detectors(can)
    if as_json:
        detectors = [entry._asdict() for entry in enabled]
        print_json({"url": settings.url, **capabilities_json(can), "detectors": detectors})
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


def _word(works: bool) -> Text:
    return Text("yes", "green") if works else Text("no", "red")
