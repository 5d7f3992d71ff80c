"""heldout model: what an endpoint can do, found out before a benchmark is run on it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet, per_second
from heldout.cli.show import console, plain, print_json
from heldout.detect import DetectorSupport, Need, answer_detectors, supported_detectors
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
    Shown("requests_per_second", "N/s", flag="--rate", convert=per_second),
)


@app.command("inspect", epilog=EXAMPLE)
@command(ProbedServer, SHOWN)
def inspect_command(settings: ProbedServer, quiet: Quiet = False, as_json: Json = False) -> None:
    """Show which detectors an endpoint supports, and what the others lack, by three tiny requests."""
    with progress("asking the server", 1, "servers", disabled=quiet) as step:
        connection = settings.connect()
        can = probe(connection, settings.model)
        step()
    enabled, answering = supported_detectors(can), answer_detectors()
    command = _ask_command(settings, connection.url, can.model, answering)
    if as_json:
        detectors = [entry._asdict() for entry in enabled]
        record = {"url": connection.url, **capabilities_json(can), "detectors": detectors}
        answers = [entry._asdict() for entry in answering]
        print_json({**record, "answer_detectors": answers, "ask": command})
        return
    out = console()
    out.print(Text(plain(f"{can.model}, served by {can.server}")))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    abilities = {
        "log-probabilities of answers": can.chat,
        "of answers with a picture": can.images,
        "of documents": can.completions,
    }
    for name, ability in abilities.items():
        table.add_row(name, _word(ability.works), Text(plain(ability.reason), "dim"))
    table.add_row()
    for entry in enabled:
        table.add_row(entry.detector, _word(entry.enabled), Text(plain(entry.reason), "dim"))
    out.print(table)
    margins = [entry for entry in answering if Need.CHOICES.value in entry.reason]
    alone = [entry for entry in answering if entry not in margins]
    _what_to_ask("from answers alone, which every server gives that replies", alone)
    _what_to_ask(
        "from answers with the log-probabilities of the options (--choice-logprobs), where the server gives them",
        margins,
    )
    out.print(Text(f"\n{plain(command)}", "cyan"), soft_wrap=True)
    out.print(Text("with twins (heldout twin): add twin=TWINS to the variants", "dim"))
    wordings = "add slot,slot-paraphrase,ngram,ngram-paraphrase to the variants"
    out.print(Text(f"with a model that rewords (--paraphraser URL): {wordings}", "dim"))


def _what_to_ask(title: str, entries: Sequence[DetectorSupport]) -> None:
    """Detectors with the variants that they read."""
    console().print(f"\n{title}; what to ask for:")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    for entry in entries:
        table.add_row(entry.detector, Text(plain(entry.reason), "dim"))
    console().print(table)


def _ask_command(
    settings: ProbedServer, url: str, model: str, answering: Sequence[DetectorSupport]
) -> str:
    """With all variants that detectors read and that need nothing else: no twins, no paraphrases."""
    read = [variant for entry in answering for variant in entry.variants]
    reworded = {part.removesuffix("-paraphrase") for part in read if part.endswith("-paraphrase")}
    variants = [
        part
        for part in dict.fromkeys(read)
        if "=" not in part and part.partition("-")[0] not in reworded
    ]
    words = ["heldout", "ask", "BENCH", "--endpoint", url, "--model", model]
    words += ["--api-key-env", settings.api_key_env] if settings.api_key_env else []
    words += ["--variants", ",".join(variants), "--choice-logprobs", "--out", "RUN"]
    return shlex.join(words)


def _word(works: bool) -> Text:
    return Text("yes", "green") if works else Text("no", "red")
