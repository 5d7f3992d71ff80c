"""heldout ask: a model's answers to a benchmark in variants, from a local model, an endpoint or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.audit import (
    Asking,
    AskingPlan,
    ask_benchmark,
    default_variants,
    import_answers,
    needs_paraphraser,
    read_twins,
)
from heldout.benchmark import read_benchmark
from heldout.cli.options import (
    ApiKeyEnv,
    Attempts,
    BatchTokens,
    Bench,
    CalledAs,
    Concurrency,
    Device,
    Dtype,
    EndpointUrl,
    Images,
    Json,
    Limit,
    Map,
    MapRecorded,
    Model,
    ModelRun,
    Preset,
    Quiet,
    Rate,
    Reader,
    Revision,
    Seed,
    Timeout,
    TrustRemoteCode,
    check_out,
    connect,
    key_from,
    local_settings,
    parse_map,
    parse_map_beside,
    per_second,
    short_name,
)
from heldout.cli.show import console, identify, plain, print_json
from heldout.errors import InputError
from heldout.model import (
    Accuracy,
    Asker,
    ChatEndpoint,
    Connection,
    Pace,
    open_model,
    parse_variants,
)
from heldout.store import Run

EXAMPLE = (
    "Example: heldout ask data/mmstar.tsv --endpoint http://localhost:8000/v1 --out runs/mmstar "
    "--variants original,rotation-all,no-image"
)
_TOKENS, _TOKENS_OF_THOUGHT = 64, 1024
_TOKENS_OF_A_SENTENCE = 256


def ask_command(
    bench: Bench,
    out: ModelRun,
    model: Model = None,
    endpoint: EndpointUrl = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            "--recorded",
            metavar="FILE",
            help="Answers made elsewhere: VLMEvalKit's xlsx or tsv, lmms-eval's samples, csv, jsonl.",
        ),
    ] = None,
    name: CalledAs = None,
    variants: Annotated[
        str | None,
        typer.Option(
            "--variants",
            metavar="V,V,…",
            help="original, rotation-K, rotation-all, shuffle-K, no-image, no-question, "
            "confused-choices, twin=BENCH, slot, slot-paraphrase[=COLUMN]. Of a --recorded file of "
            "answers to twins: twin. "
            "Default: original and all rotations.",
        ),
    ] = None,
    thought: Annotated[
        bool, typer.Option("--chain-of-thought", help="Reason first, then <answer>…</answer>.")
    ] = False,
    limit: Limit = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, max=1, help="Relative error a number may have.")
    ] = 0.0,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", min=1, help="Of a reply; 64, with reasoning 1024."),
    ] = None,
    choice_logprobs: Annotated[
        bool,
        typer.Option("--choice-logprobs", help="Keep the letters' log-probabilities, if told."),
    ] = False,
    paraphraser: Annotated[
        str | None,
        typer.Option(
            "--paraphraser",
            metavar="URL",
            help="Server that rewords questions, of slot-paraphrase.",
        ),
    ] = None,
    paraphraser_model: Annotated[
        str | None,
        typer.Option("--paraphraser-model", metavar="NAME", help="If it serves several."),
    ] = None,
    paraphraser_key: Annotated[
        str | None,
        typer.Option(
            "--paraphraser-api-key-env", metavar="VAR", help="Variable that holds its key."
        ),
    ] = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
    batch_tokens: BatchTokens = None,
    revision: Revision = None,
    trust: TrustRemoteCode = False,
    api_key_env: ApiKeyEnv = None,
    rate: Rate = None,
    timeout: Timeout = 120.0,
    attempts: Attempts = None,
    concurrency: Concurrency = 4,
    token_field: Annotated[
        str,
        typer.Option(
            "--token-field", help="What the endpoint calls the limit: max_completion_tokens …"
        ),
    ] = "max_tokens",
    price: Annotated[
        str | None,
        typer.Option(
            "--price", metavar="IN,OUT", help="Price of a million tokens read and written."
        ),
    ] = None,
    columns: MapRecorded = [],  # noqa: B006 - typer copies defaults
    mapping: Map = [],  # noqa: B006
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Ask a model every item, as released and in variants; grade strictly; print accuracy.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again:
    no reply that arrived is lost or asked for twice.
    """
    if recorded is not None and endpoint is not None:
        raise InputError(
            "--recorded reads a file, --endpoint asks a server: leave out one of the two"
        )
    if recorded is None and endpoint is None and model is None:
        raise InputError("who is to be asked? Give --model, --endpoint URL, or --recorded FILE")
    if recorded is not None and (thought or limit):
        raise InputError("--recorded takes what the file holds: it has no limit and no reasoning")
    of_twins = _recorded_twins(variants) if recorded is not None else None
    prices = _prices(price)
    chosen = parse_variants(variants) if variants is not None and recorded is None else None
    benchmark = read_benchmark(
        bench,
        preset=preset,
        mapping=parse_map_beside(mapping, recorded),
        images=images,
        reader=reader,
    )
    connection = None
    if endpoint is not None:
        connection = connect(endpoint, api_key_env, timeout=timeout, rate=rate, attempts=attempts)
    identify(benchmark, quiet=quiet)
    if recorded is not None:
        run = Run.create(out, seed=seed)
        with run.writing():
            made = import_answers(
                benchmark,
                recorded,
                run,
                model=name or model,
                mapping=parse_map(columns),
                tolerance=tolerance,
                variant=of_twins,
            )
        return _tell(made, out, prices, as_json)
    plan = AskingPlan(chosen or default_variants(benchmark), thought, tolerance, limit, seed)
    twins = read_twins(plan.variants, benchmark)
    most = max_new_tokens or (_TOKENS_OF_THOUGHT if thought else _TOKENS)
    check_out(out, seed)
    rewords: Asker | None = None
    if needs_paraphraser(plan.variants):
        if paraphraser is None:
            raise InputError(
                "--variants slot-paraphrase: who rewords the questions? Give --paraphraser URL, or "
                "slot-paraphrase=COLUMN where the benchmark has rewordings"
            )
        server_of_words = Connection(
            paraphraser,
            api_key=key_from(paraphraser_key, "--paraphraser-api-key-env"),
            timeout=timeout,
            pace=Pace(per_second(rate)),
            role="paraphraser-",
            key_option="--paraphraser-api-key-env",
        )
        rewords = ChatEndpoint.open(
            server_of_words,
            paraphraser_model,
            max_tokens=_TOKENS_OF_A_SENTENCE,
            concurrency=concurrency,
            token_field=token_field,
        )
    asker: Asker
    if connection is not None:
        server = ChatEndpoint.open(
            connection,
            model,
            max_tokens=most,
            concurrency=concurrency,
            dtype="unknown" if dtype == "auto" else dtype,
            logprobs=choice_logprobs,
            token_field=token_field,
        )
        asker, called = server, name or server.model
    else:
        assert model is not None
        local = local_settings(dtype, device, revision, trust, batch_tokens)
        asker = open_model(model, **local).asker(most, logprobs=choice_logprobs)
        called = name or short_name(model)
    run = Run.create(out, seed=seed)
    with run.writing():
        asked = ask_benchmark(
            benchmark, asker, run, called, plan, twins, paraphraser=rewords, quiet=quiet
        )
    return _tell([asked], out, prices, as_json)


def _recorded_twins(variants: str | None) -> str | None:
    """A file of a program that knows nothing of twins has to be called one."""
    if variants in (None, "original"):
        return None
    if (variants != "twin" and not variants.startswith("twin-")) or set(variants) & set(",="):
        raise InputError(
            f"--variants {variants}: --recorded takes what the file holds. If it holds answers to twins, "
            f"say --variants twin (or twin-NAME); otherwise leave --variants out"
        )
    return variants


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--price {text}: expected two numbers, of a million tokens read and written: 2.5,10"
        ) from None
    return read, written


def _cost(asking: Asking, prices: tuple[float, float] | None) -> float | None:
    if prices is None:
        return None
    return (asking.prompt_tokens * prices[0] + asking.reply_tokens * prices[1]) / 1e6


def _tell(made: list[Asking], out: Path, prices: tuple[float, float] | None, as_json: bool) -> None:
    if as_json:
        models = [{**asking.as_json(), "cost": _cost(asking, prices)} for asking in made]
        return print_json({"run": str(out), "models": models})
    for asking in made:
        _show(asking, _cost(asking, prices))
    if any(asking.unread.many for asking in made):
        message = f"look at the replies before anything else: {out}/tables/answers.parquet"
        console().print(Text(f"\n{plain(message)}", "yellow"), soft_wrap=True)
        why = "what detectors find in replies that nobody could read says nothing about the model"
        console().print(Text(f"then: heldout detect {out}; {why}"), soft_wrap=True)
        return None
    console().print(f"\nnext: heldout detect {out}", soft_wrap=True)
    return None


def _show(asking: Asking, cost: float | None) -> None:
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
        listed = ", ".join(f"{reason} {count:,}" for reason, count in asking.dropped.items())
        screen.print(Text(f"left out: {plain(listed)}", "dim"))
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
        return  # nobody asked for rotations
    screen.print(
        Text(
            f"vanilla {_rate(vanilla)}, circular {_rate(circular)} on the same {vanilla.n:,} items in "
            f"{vanilla.clusters:,} clusters"
            + (
                f"; {asking.summary.without_rotations:,} items were not asked in all rotations"
                if asking.summary.without_rotations
                else ""
            )
        )
    )


def _rate(accuracy: Accuracy) -> str:
    return f"{accuracy.rate:.1%} [{accuracy.interval.low:.1%}, {accuracy.interval.high:.1%}]"


def _cells(accuracy: Accuracy) -> tuple[str, ...]:
    return (
        accuracy.name,
        f"{accuracy.rate:.1%}",
        f"{accuracy.interval.low:.1%} – {accuracy.interval.high:.1%}",
        f"{accuracy.n:,}",
        f"{accuracy.outcomes.get('unparsed', 0):,}",
        f"{accuracy.outcomes.get('refused', 0):,}",
    )
