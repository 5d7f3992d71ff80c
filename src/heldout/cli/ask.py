"""heldout ask: a model's answers to a benchmark in variants, from a local model, an endpoint or a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.benchmark import read_benchmark
from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.options import (
    MODEL_SHOWN,
    SERVER,
    Bench,
    Images,
    Json,
    Map,
    ModelRun,
    Preset,
    Quiet,
    Reader,
    parse_map_beside,
    parse_prices,
    shared_server,
)
from heldout.cli.show import console, plain, print_dropped, print_json, with_cure
from heldout.errors import InputError, counted, percent
from heldout.model import Accuracy, Asking, AskSettings, ask
from heldout.store import Run

EXAMPLE = (
    "Example: heldout ask data/mmstar.tsv --endpoint http://localhost:8000/v1 --out runs/mmstar "
    "--variants original,rotation-all,no-image"
)
SHOWN = (
    Shown("variants", "V,V,…", convert=str),
    *MODEL_SHOWN,
    *panel(
        "How it is asked",
        "chain_of_thought",
        "tolerance",
        "max_new_tokens",
        "choice_logprobs",
    ),
    *panel(
        SERVER,
        Shown("endpoint.api_key_env", "VAR", flag="--api-key-env"),
        "paraphraser.url URL",
        "paraphraser.model NAME",
        "paraphraser.api_key_env VAR",
    ),
    *shared_server("endpoint", "paraphraser"),
    Shown("seed"),
)


@command(AskSettings, SHOWN)
def ask_command(
    settings: AskSettings,
    bench: Bench,
    out: ModelRun,
    price: Annotated[
        str | None,
        typer.Option(
            "--price",
            metavar="IN,OUT",
            help="Price of a million tokens read and written.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Ask a model every item, as released and in variants; grade strictly; print accuracy.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again:
    no reply that arrived is lost or asked for twice.
    """
    settings.require_source(settings.recorded)
    prices = parse_prices(price)
    columns = parse_map_beside(mapping, settings.recorded)
    benchmark = read_benchmark(bench, preset=preset, mapping=columns, images=images, reader=reader)
    try:
        result = ask(benchmark, settings, run=out, quiet=quiet, command=["heldout", *sys.argv[1:]])
    except InputError as error:
        raise InputError(with_cure(str(error))) from error
    _print(result.models, out, prices, as_json)


def _cost(asking: Asking, prices: Mapping[str, float]) -> float | None:
    if not prices:
        return None
    return (
        asking.prompt_tokens * prices["price_in"] + asking.reply_tokens * prices["price_out"]
    ) / 1e6


def _print(
    askings: Sequence[Asking], out: Path, prices: Mapping[str, float], as_json: bool
) -> None:
    if as_json:
        models = [{**asking.as_json(), "cost": _cost(asking, prices)} for asking in askings]
        return print_json({"run": str(out), "models": models})
    for asking in askings:
        _show(asking, _cost(asking, prices), out)
    if any(asking.unread.many for asking in askings):
        message = f"look at the replies before anything else: {out}/tables/answers.parquet"
        console().print(Text(f"\n{plain(message)}", "yellow"), soft_wrap=True)
        why = "findings from unreadable replies are not evidence about the model"
        console().print(Text(f"then: heldout detect {out}; {why}"), soft_wrap=True)
        return None
    console().print(f"\nnext: heldout detect {out}", soft_wrap=True)
    return None


def _show(asking: Asking, cost: float | None, out: Path) -> None:
    screen = console()
    message = (
        f"{asking.asked:,} asked, {asking.reused:,} answered before or by the same prompt, "
        f"{sum(asking.dropped.values()):,} left out"
    )
    if asking.prompt_tokens or asking.reply_tokens:
        message += f"; {asking.prompt_tokens:,} tokens read, {asking.reply_tokens:,} written"
    if cost is not None:
        message += f", cost {cost:,.2f}"
    screen.print(Text(f"{plain(asking.model)}: {message}"))
    if asking.dropped:
        print_dropped(Run.open(out), ("ask",), model=asking.model)
    for sentence in asking.remarks():
        screen.print(Text(plain(sentence), "yellow"), soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for header in ("", "accuracy", "95 % interval", "items", "unparsed", "refused"):
        table.add_column(header, justify="left" if not header else "right")
    for accuracy in asking.summary.variants:
        table.add_row(*_cells(accuracy))
    screen.print(table)
    vanilla, circular = asking.summary.vanilla, asking.summary.circular
    if vanilla is None or circular is None:
        return  # rotations were not asked for
    screen.print(
        Text(
            f"right in the released order {_rate(vanilla)}, right in every rotation {_rate(circular)}, on the same "
            f"{counted(vanilla.n, 'item', 'items')} in {counted(vanilla.clusters, 'group', 'groups')} of items "
            f"that share a picture"
            + (
                f"; {asking.summary.without_rotations:,} items were not asked in all rotations"
                if asking.summary.without_rotations
                else ""
            )
        )
    )


def _rate(accuracy: Accuracy) -> str:
    return f"{percent(accuracy.rate)} [{percent(accuracy.interval.low)}, {percent(accuracy.interval.high)}]"


def _cells(accuracy: Accuracy) -> tuple[str, ...]:
    return (
        accuracy.name,
        f"{percent(accuracy.rate)}",
        f"{percent(accuracy.interval.low)} – {percent(accuracy.interval.high)}",
        f"{accuracy.n:,}",
        f"{accuracy.outcomes.get('unparsed', 0):,}",
        f"{accuracy.outcomes.get('refused', 0):,}",
    )
