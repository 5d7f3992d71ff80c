"""heldout synth: fresh items from open literature, verified, decontaminated, published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command, or_none, panel
from heldout.cli.options import EngineName, Json, Quiet, Workers, parse_prices
from heldout.cli.show import complain, console, plain, print_json
from heldout.errors import InputError, counted
from heldout.synth import MODEL_ROLES, SCENES, SynthSettings

MODELS, FIGURES = "Models", "Which figures"
EXAMPLE = (
    "Example: heldout synth articles/ --generator http://localhost:8000/v1 "
    "--verifier http://localhost:8001/v1 --against slake#split=test --out runs/fresh"
)
SHOWN = (
    Shown("source", "SOURCE", argument=True, optional=True),
    Shown("stages", "a,b", convert=str),
    Shown("seed"),
    *panel(
        MODELS,
        *(f"{role}.url URL" for role in MODEL_ROLES),
        *(f"{role}.model NAME" for role in MODEL_ROLES),
        *(f"{role}.api_key_env VAR" for role in MODEL_ROLES),
        Shown("concurrency", roles=MODEL_ROLES),
        Shown("timeout", "S", roles=MODEL_ROLES),
        Shown("max_tokens", roles=MODEL_ROLES),
        Shown("tokens_per_minute", roles=MODEL_ROLES),
        "attempts",
        "same_model",
        "conditioning",
    ),
    *panel(
        FIGURES,
        "limit",
        Shown("labels", "LABEL", flag="--label"),
        "quota",
        "any_licence",
        "plant",
    ),
    *panel("Acceptance", "normalisation", "threshold", "drop_shortcuts"),
    *panel(
        "Decontamination and publishing",
        "against BENCH",
        Shown("image_encoder", "E", convert=or_none),
        "text_encoder E",
        "name",
    ),
)


def _prepare(values: dict[str, Any], options: Mapping[str, Any]) -> None:
    rendered = options["rendered"]
    if ("source" in values) == (rendered is not None):
        raise InputError(f"give a SOURCE to read, or --from {SCENES} to render one")
    if rendered not in (None, SCENES):
        raise InputError(f"--from {rendered}: expected {SCENES}")
    values.setdefault("source", rendered)
    for role in values.keys() & set(MODEL_ROLES):
        values[role] |= parse_prices(options["prices"], "--prices")


@command(SynthSettings, SHOWN, prepare=_prepare)
def synth_command(
    settings: SynthSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this synthesis.")
    ],
    rendered: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WORLD",
            help="'scenes': rendered figures with exact truth, without a model.",
            rich_help_panel=FIGURES,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices",
            metavar="IN,OUT",
            help="Price of a million prompt tokens and of a million reply tokens.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Read and select figures, print requests done and left, tokens, price, time, and stop.",
        ),
    ] = False,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make verified multiple-choice items from open literature, remove overlaps, publish them."""
    if plan:  # a plan has no page: what draws one is not loaded
        from heldout.synth import synth as make
    else:
        from heldout.audit import synthesize as make

    paid = settings.generator is not None
    if paid and not settings.against and not settings.stages and not quiet:
        typer.echo("no --against: the items are not compared with any benchmark", err=True)
    synthesis = make(
        settings, out=out, engine=engine, workers=workers, quiet=quiet or as_json, plan=plan
    )
    for message in synthesis.unreadable:
        complain(message)
    if as_json:
        print_json(synthesis.as_json())
    else:
        _show(synthesis, out, plan)
    if not plan and not synthesis.funnel.steps[-1].left:
        complain("no item is left; the table shows where items were dropped, and why")
        raise typer.Exit(1)


def _show(synthesis: Any, out: Path, plan: bool) -> None:
    screen = console()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for header, justify in (
        ("stage", "left"),
        ("in", "right"),
        ("out", "right"),
        ("dropped", "left"),
    ):
        table.add_column(header, justify=justify)  # type: ignore[arg-type]
    for step in synthesis.funnel.steps:
        why = ", ".join(
            f"{plain(reason)} {count:,}" for reason, count in step.reasons.items() if count
        )
        if step.files:
            files = ", ".join(f"{plain(reason)} {count:,}" for reason, count in step.files.items())
            why += f"{'; ' if why else ''}files not read: {files}"
        table.add_row(step.name, f"{step.entered:,}", f"{step.left:,}", Text(why))
    screen.print(table)
    if left_out := synthesis.not_selected:
        (detail, count), *_ = left_out.items()
        others = f" ({len(left_out) - 1:,} other kinds as well)" if len(left_out) > 1 else ""
        message = (
            f"most figures not selected: {plain(detail)}, {count:,}{others}; --label selects others"
        )
        screen.print(Text(message, "dim"), soft_wrap=True)
    if plan:
        for cost in (*synthesis.costs, *([synthesis.total] if synthesis.costs else [])):
            left = f"about {_cost(cost)}, {_duration(cost.hours)}" if cost.requests else "none"
            done = f"{counted(cost.done, 'request', 'requests')} done; left: " if cost.done else ""
            screen.print(f"{cost.stage}: {done}{left}", soft_wrap=True)
        if synthesis.costs:
            if not synthesis.total.price and synthesis.total.requests:
                screen.print("no price: no prices are given (--prices IN,OUT)", soft_wrap=True)
            screen.print(Text(synthesis.assumptions, "dim"), soft_wrap=True)
        return
    for spent in synthesis.spent:
        screen.print(f"spent on {spent.stage}: {_cost(spent)}", soft_wrap=True)
    for role, models in synthesis.models.group_by("role", maintain_order=True):
        if len(models) > 1:
            names = ", ".join(
                f"{' '.join(filter(None, (row['model'], row['fingerprint'])))} ({row['replies']:,})"
                for row in models.to_dicts()
            )
            message = f"{role[0]}: the replies name {len(models):,} models: {plain(names)}"
            screen.print(Text(message, "yellow"), soft_wrap=True)
    if synthesis.undecided:
        message = counted(synthesis.undecided, "item is", "items are")
        first = f" ({plain(synthesis.failure)})" if synthesis.failure else ""
        again = "it" if synthesis.undecided == 1 else "them"
        message = f"{message} undecided, as an endpoint failed{first}; the same command asks for {again} again"
        screen.print(Text(message, "yellow"), soft_wrap=True)
    screen.print(Text(f"\nreport: {out}/report.html"), soft_wrap=True)
    if (out / "synth" / "dataset").is_dir():
        if not synthesis.compared:
            screen.print(Text("published, but compared with no benchmark", "yellow"))
        screen.print(Text(f"dataset: {out}/synth/dataset"), soft_wrap=True)
        screen.print(Text(f"next: heldout review {out} --kind items"), soft_wrap=True)


def _cost(cost: Any) -> str:
    price = f", price {cost.price:,.2f}" if cost.price else ""
    tokens = f"{cost.prompt_tokens:,} prompt and {cost.reply_tokens:,} reply tokens"
    return f"{counted(cost.requests, 'request', 'requests')}, {tokens}{price}"


def _duration(hours: float) -> str:
    seconds = hours * 3600
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{hours:.1f} h"
