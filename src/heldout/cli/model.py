"""heldout model: what a model can be asked, before a benchmark is spent on it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.options import ApiKeyEnv, Json, Timeout, key_from
from heldout.cli.show import console, plain, print_json
from heldout.model import Backoff, Connection, as_json, enables, probe

EXAMPLE = "Example: heldout model inspect http://localhost:8000/v1"

app = typer.Typer(
    name="model", help="Look at a model before scoring with it.", no_args_is_help=True
)


@app.command("inspect", epilog=EXAMPLE)
def inspect_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="An OpenAI-compatible server.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Where it serves several.")
    ] = None,
    api_key_env: ApiKeyEnv = None,
    timeout: Timeout = 60.0,
    json_only: Json = False,
) -> None:
    """Which detectors an endpoint enables, and why not the others: asked with three tiny requests."""
    soon = Backoff(attempts=2)  # somebody waits, and can ask again
    can = probe(
        Connection(url, api_key=key_from(api_key_env), timeout=timeout, backoff=soon), model
    )
    enabled = enables(can)
    if json_only:
        detectors = [one._asdict() for one in enabled]
        print_json({"url": url, **as_json(can), "detectors": detectors})
        return
    out = console()
    out.print(Text(plain(f"{can.model}, served by {can.server}")))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    abilities = {"answers": can.chat, "pictures": can.images, "documents": can.completions}
    for name, ability in abilities.items():
        table.add_row(name, _word(ability.works), Text(plain(ability.reason), "dim"))
    table.add_row()
    for one in enabled:
        table.add_row(one.detector, _word(one.enabled), Text(plain(one.reason), "dim"))
    out.print(table)


def _word(works: bool) -> Text:
    return Text("yes", "green") if works else Text("no", "red")
