"""heldout demo: the whole path on a benchmark, a leaky corpus and five models that come with it."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from heldout.audit import BROKEN, CHANGED, DECOY, WORDS, DemoResult, DemoSettings, Suspect, run_demo
from heldout.cli.from_settings import Shown, command, with_options
from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import COLOURS, console, plain, print_check, print_json
from heldout.errors import percent
from heldout.verdict import PLAIN

EXAMPLE = "Example: heldout demo --out heldout-demo"
SHOWN = (Shown("out", "DIR"), Shown("seed"), Shown("models", "FOLDER"))


@command(DemoSettings, SHOWN)
def demo_command(
    settings: DemoSettings,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Render a benchmark and a corpus with planted leaks, audit both and five models, show the verdict.

    Needs no network. If it is killed, the same command continues it.
    """
    silent = quiet or as_json

    def tell(line: str) -> None:
        if not silent:
            typer.echo(plain(line), err=True)

    result = run_demo(settings=settings, engine=engine, workers=workers, tell=tell, quiet=silent)
    if as_json:
        print_json(result.as_json())
    else:
        _show(result)


def _show(result: DemoResult) -> None:
    out = console()
    out.rule("1  the benchmark", align="left")
    print_check(result.check)
    out.rule("2  what was planted in the corpus, and what was found", align="left")
    out.print(_planted(result))
    out.print(
        "decoys and broken files are no copies. Common words were found, too: the benchmark asks the same of\n"
        "several pictures, so that without a picture they identify no item and are no leak"
    )
    out.rule("3  the verdict", align="left")
    out.print(_verdict(result))
    if result.missing:
        out.print(
            Text(f"no model was audited: {plain(with_options(result.missing, SHOWN))}", "yellow"),
            soft_wrap=True,
        )
    else:
        out.print("the audit did not know which model is which; the truth was looked up afterwards")
    out.print(f"\naudit file: {plain(str(result.audit_file))}", soft_wrap=True, markup=False)
    out.print(f"report: {plain(str(result.report))}", soft_wrap=True, markup=False)


def _planted(result: DemoResult) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("what")
    table.add_column("in the corpus as")
    table.add_column("planted", justify="right")
    table.add_column("found", justify="right")
    for row in result.planted:
        wanted = 0 if row.group in (DECOY, BROKEN) else row.planted - row.common
        missed = "yellow" if row.group in (CHANGED, WORDS) else "bold red"
        right = "green" if row.found == wanted else missed
        both = [str(row.found)] * bool(row.found or not row.common)
        text = Text(
            ", ".join([*both, *([f"{row.common}, common words"] * bool(row.common))]), right
        )
        table.add_row(row.group, row.kind, str(row.planted), text)
    return table


def _verdict(result: DemoResult) -> Table:
    """Benchmark × corpus and benchmark × model, with what is true beside what was found."""
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    for name in (f"{result.check.benchmark} in", "verdict", "because", "in truth"):
        table.add_column(name, overflow="fold")
    for cell in result.audited.overall.cells:
        if cell.cell.corpus is not None and cell.leak is not None:
            low, high = cell.leak.interval.low, cell.leak.interval.high
            because = (
                f"{percent(cell.leak.value)} of items leaked [{percent(low)}, {percent(high)}]"
            )
            status = Text(PLAIN[cell.status], COLOURS.get(cell.status, "dim"))
            table.add_row(f"corpus {plain(cell.on)}", status, because, "leaks were planted")
    for model in result.models:
        shown = "clean" if model.status == "quiet" else model.status
        words = PLAIN.get(model.status) or _REFERENCE.get(model.status, model.status)
        status = Text(words, COLOURS.get(shown, "yellow"))
        table.add_row(f"model {plain(model.name)}", status, _because(model), model.truth)
    return table


#: what a model that is named as a reference shows
_REFERENCE = {"quiet": "reference: no effect", "fires too": "reference: an effect, too"}


def _because(model: Suspect) -> str:
    message = "; ".join(f"{name} {effect}" for name, effect in model.evidence.items())
    if model.survives:
        return f"{' and '.join(model.survives)} passed every control: {message}"
    if model.status == "clean":
        return "; ".join(
            f"{name} {effect}, where {model.least[name]:.2g} or more would have been detected"
            for name, effect in model.evidence.items()
        )
    if model.status == "qualified":
        return f"possible: {message}; baselines of three families would settle it"
    return message
