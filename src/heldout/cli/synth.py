"""heldout synth: fresh items from open literature, verified, decontaminated, published."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import complain, console, plain, print_json
from heldout.errors import InputError, counted

TERMINATED = 128 + signal.SIGTERM
ASK, CHOOSE, JUDGE, CLEAN = (
    "Models",
    "Which figures",
    "Acceptance",
    "Decontamination and publishing",
)


def _endpoint(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="URL", help=what, rich_help_panel=ASK)


def _model(name: str) -> Any:
    return typer.Option(
        f"--{name}-model",
        metavar="NAME",
        help=f"Model that the {name} server runs.",
        rich_help_panel=ASK,
    )


def _key(name: str) -> Any:
    return typer.Option(
        f"--{name}-key-env",
        metavar="VAR",
        help=f"Variable with the API key of the {name} server.",
        rich_help_panel=ASK,
    )


EXAMPLE = (
    "Example: heldout synth articles/ --generator http://localhost:8000/v1 "
    "--verifier http://localhost:8001/v1 --against slake#split=test --out runs/fresh"
)


def synth_command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="JATS XML with images, PMC packages, Biomedica shards, or captioned images.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this synthesis.")
    ] = ...,  # type: ignore[assignment]
    generator: Annotated[
        str | None, _endpoint("generator", "Server of the model that writes items.")
    ] = None,
    verifier: Annotated[
        str | None, _endpoint("verifier", "Server of the model that checks them.")
    ] = None,
    shortcut: Annotated[
        str | None, _endpoint("shortcut", "Server of a model that answers without the image.")
    ] = None,
    traces: Annotated[
        str | None, _endpoint("traces", "Server of a model that writes reasoning traces.")
    ] = None,
    generator_model: Annotated[str | None, _model("generator")] = None,
    verifier_model: Annotated[str | None, _model("verifier")] = None,
    shortcut_model: Annotated[str | None, _model("shortcut")] = None,
    traces_model: Annotated[str | None, _model("traces")] = None,
    generator_key_env: Annotated[str | None, _key("generator")] = None,
    verifier_key_env: Annotated[str | None, _key("verifier")] = None,
    shortcut_key_env: Annotated[str | None, _key("shortcut")] = None,
    traces_key_env: Annotated[str | None, _key("traces")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", min=1, max=256, help="Requests at a time.", rich_help_panel=ASK
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="S",
            help="Seconds that one whole request may take.",
            rich_help_panel=ASK,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=16,
            help="Longest reply in tokens (default: 4,096).",
            rich_help_panel=ASK,
        ),
    ] = None,
    tokens_per_minute: Annotated[
        int | None,
        typer.Option(
            "--tokens-per-minute",
            min=1,
            help="Token budget of each server, prompts and replies together.",
            rich_help_panel=ASK,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices",
            metavar="IN,OUT",
            help="Price of a million prompt tokens and of a million reply tokens.",
            rich_help_panel=ASK,
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts",
            min=1,
            max=10,
            help="Most requests for an item whose reply cannot be read (default: 3).",
            rich_help_panel=ASK,
        ),
    ] = None,
    same_model: Annotated[
        bool,
        typer.Option(
            "--same-model", help="Allow the generator to verify itself.", rich_help_panel=ASK
        ),
    ] = False,
    against: Annotated[
        list[str],
        typer.Option(
            "--against",
            metavar="BENCH",
            help="Benchmark that the items must not overlap; may be given several times.",
            rich_help_panel=CLEAN,
        ),
    ] = [],  # noqa: B006
    rendered: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WORLD",
            help="'scenes': rendered figures with exact truth, without a model.",
            rich_help_panel=CHOOSE,
        ),
    ] = None,
    stages: Annotated[
        str | None, typer.Option("--stages", metavar="a,b", help="Only these stages, in order.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Read and select figures, print requests done and left, tokens, price, time, and stop.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="Select at most this many figures.", rich_help_panel=CHOOSE
        ),
    ] = None,
    labels: Annotated[
        list[str],
        typer.Option(
            "--label",
            metavar="LABEL",
            help="Keep figures with this label; 'all' keeps every figure.",
            rich_help_panel=CHOOSE,
        ),
    ] = [],  # noqa: B006
    quota: Annotated[
        int | None,
        typer.Option("--quota", min=1, help="Most figures per label.", rich_help_panel=CHOOSE),
    ] = None,
    any_licence: Annotated[
        bool,
        typer.Option(
            "--any-licence",
            help="Keep figures that could not be published.",
            rich_help_panel=CHOOSE,
        ),
    ] = False,
    conditioning: Annotated[
        str | None,
        typer.Option(
            "--conditioning",
            help="What the generator sees: context, image-caption or caption.",
            rich_help_panel=ASK,
        ),
    ] = None,
    normalisation: Annotated[
        str | None,
        typer.Option(
            "--normalisation", help="bonus-only or with-essentials.", rich_help_panel=JUDGE
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            min=0,
            max=1,
            help="Least score of an accepted item (default: .967).",
            rich_help_panel=JUDGE,
        ),
    ] = None,
    drop_shortcuts: Annotated[
        bool,
        typer.Option(
            "--drop-shortcuts",
            help="Drop items that are solved without the image.",
            rich_help_panel=JUDGE,
        ),
    ] = False,
    plant: Annotated[
        float | None,
        typer.Option(
            "--plant",
            min=0,
            max=1,
            help="Share of items with a planted fault (scenes only).",
            rich_help_panel=CHOOSE,
        ),
    ] = None,
    image_encoder: Annotated[
        str | None,
        typer.Option(
            "--image-encoder",
            metavar="E",
            help="Encoder for near images (default: pixels); 'none' compares hashes only.",
            rich_help_panel=CLEAN,
        ),
    ] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            "--text-encoder", metavar="E", help="Encoder for reworded texts.", rich_help_panel=CLEAN
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the dataset.", rich_help_panel=CLEAN)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of every draw (default: 42).")
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make verified multiple-choice items from open literature, remove overlaps, publish them."""
    from heldout.audit import synthesize
    from heldout.synth import Synthesis

    if (source is None) == (rendered is None):
        raise InputError("give a SOURCE to read, or --from scenes to render one")
    if rendered not in (None, "scenes"):
        raise InputError(f"--from {rendered}: expected scenes")
    shared = {
        "concurrency": concurrency,
        "timeout": timeout,
        "max_tokens": max_tokens,
        "tokens_per_minute": tokens_per_minute,
        **_prices(prices),
    }
    values: dict[str, Any] = {
        "source": source or rendered,
        "generator": _settings(generator, generator_model, generator_key_env, shared),
        "verifier": _settings(verifier, verifier_model, verifier_key_env, shared),
        "shortcut": _settings(shortcut, shortcut_model, shortcut_key_env, shared),
        "traces": _settings(traces, traces_model, traces_key_env, shared),
        "against": tuple(against),
        "limit": limit,
        "labels": tuple(labels),
        "quota": quota,
        "any_licence": any_licence,
        "attempts": attempts,
        "same_model": same_model,
        "conditioning": conditioning,
        "normalisation": normalisation,
        "threshold": threshold,
        "drop_shortcuts": drop_shortcuts,
        "plant": plant,
        "image_encoder": image_encoder,
        "text_encoder": text_encoder,
        "name": name,
        "seed": seed,
        "stages": stages or None,
    }
    values = {key: value for key, value in values.items() if value is not None}
    if image_encoder == "none":
        values["image_encoder"] = None
    if not against and not stages and not quiet:
        typer.echo("no --against: the items are not compared with any benchmark", err=True)
    try:
        with _ended_by_term():
            made: Synthesis = synthesize(
                out=out, engine=engine, workers=workers, quiet=quiet or as_json, plan=plan, **values
            )
    except InputError as error:
        error.args = (_with_options(str(error)),)
        raise
    if as_json:
        print_json(made.as_json())
    else:
        _show(made, out, plan)
    if not plan and not made.funnel.steps[-1].left:
        complain("no item is left; the table shows where items were dropped, and why")
        raise typer.Exit(1)


def _prices(text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--prices {text}: expected two numbers, as in 0.6,1.8") from error
    return {"price_in": price_in, "price_out": price_out}


def _settings(
    url: str | None, model: str | None, key: str | None, shared: dict[str, Any]
) -> dict[str, Any] | None:
    if url is None:
        return None
    given = {"url": url, "model": model, "key_env": key, **shared}
    return {name: value for name, value in given.items() if value is not None}


@contextlib.contextmanager
def _ended_by_term() -> Iterator[None]:
    """SIGTERM ends the run like an interrupt: what is under way is kept and the tables are written."""

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except SystemExit as ended:
        if ended.code == TERMINATED:
            complain("ended by SIGTERM; what was finished is kept, run the same command to go on")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


# Settings whose options have another name, or are given for all models at once.
_OPTIONS = {
    "labels": "--label",
    "price_in": "--prices",
    "price_out": "--prices",
    "concurrency": "--concurrency",
    "timeout": "--timeout",
    "max_tokens": "--max-tokens",
    "tokens_per_minute": "--tokens-per-minute",
}
_OF_MODEL = re.compile(r"\b(generator|verifier|shortcut|traces)\.([a-z_]+)")
_NAMED = re.compile(r"^[a-z_]+(?=: )|(?<=the setting )[a-z_]+|(?<=\bset )(?:labels|same_model)\b")


def _with_options(text: str) -> str:
    """Settings as this command line writes them."""

    def of_model(match: re.Match[str]) -> str:
        role, name = match.groups()
        own = f"--{role}" if name == "url" else f"--{role}-{name.replace('_', '-')}"
        return _OPTIONS.get(name, own)

    def named(match: re.Match[str]) -> str:
        return _OPTIONS.get(match[0], f"--{match[0].replace('_', '-')}")

    text = _NAMED.sub(named, _OF_MODEL.sub(of_model, text))
    return text.replace("the setting --", "--").replace(" set --", " give --")


def _show(made: Any, out: Path, plan: bool) -> None:
    screen = console()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for header, justify in (
        ("stage", "left"),
        ("in", "right"),
        ("out", "right"),
        ("dropped", "left"),
    ):
        table.add_column(header, justify=justify)  # type: ignore[arg-type]
    for step in made.funnel.steps:
        why = ", ".join(
            f"{plain(reason)} {count:,}" for reason, count in step.reasons.items() if count
        )
        if step.files:
            files = ", ".join(f"{plain(reason)} {count:,}" for reason, count in step.files.items())
            why += f"{'; ' if why else ''}files not read: {files}"
        table.add_row(step.name, f"{step.entered:,}", f"{step.left:,}", Text(why))
    screen.print(table)
    if plan:
        for cost in (*made.costs, *([made.total] if made.costs else [])):
            left = f"about {_cost(cost)}, {_duration(cost.hours)}" if cost.requests else "none"
            done = f"{counted(cost.done, 'request', 'requests')} done; left: " if cost.done else ""
            screen.print(f"{cost.stage}: {done}{left}", soft_wrap=True)
        if made.costs:
            if not made.total.price and made.total.requests:
                screen.print("no price: no prices are given (--prices IN,OUT)", soft_wrap=True)
            screen.print(Text(made.assumptions, "dim"), soft_wrap=True)
        return
    for spent in made.spent:
        screen.print(f"spent on {spent.stage}: {_cost(spent)}", soft_wrap=True)
    for role, models in made.models.group_by("role", maintain_order=True):
        if len(models) > 1:
            names = ", ".join(
                f"{' '.join(filter(None, (row['model'], row['fingerprint'])))} ({row['replies']:,})"
                for row in models.to_dicts()
            )
            message = f"{role[0]}: the replies name {len(models):,} models: {plain(names)}"
            screen.print(Text(message, "yellow"), soft_wrap=True)
    if made.undecided:
        message = counted(made.undecided, "item is", "items are")
        message = (
            f"{message} undecided, as an endpoint failed; the same command asks for them again"
        )
        screen.print(Text(message, "yellow"), soft_wrap=True)
    screen.print(Text(f"\nreport: {out}/report.html"), soft_wrap=True)
    if (out / "synth" / "dataset").is_dir():
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
