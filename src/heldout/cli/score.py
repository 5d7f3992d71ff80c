"""heldout score: log-probabilities of every answer, from a local model, an endpoint or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from heldout.audit import Scoring, ScoringPlan, import_scores, score_benchmark
from heldout.benchmark import Benchmark, read_benchmark
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
    local_settings,
    parse_map,
    parse_map_beside,
    short_name,
)
from heldout.cli.show import complain, console, identify, plain, print_json
from heldout.errors import InputError
from heldout.model import Endpoint, Scorer, check_parity, open_model
from heldout.store import Run

EXAMPLE = "Example: heldout score data/slake#split=test,lang=en --model models/qwen2.5-vl --out runs/slake"

_COLOURS = {"passed": "green", "failed": "bold red", "not checked": "yellow"}


def score_command(
    bench: Bench,
    out: ModelRun,
    model: Model = None,
    endpoint: EndpointUrl = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            "--recorded", metavar="FILE", help="Scores made elsewhere: parquet, jsonl, csv."
        ),
    ] = None,
    name: CalledAs = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
    batch_tokens: BatchTokens = None,
    revision: Revision = None,
    trust: TrustRemoteCode = False,
    options: Annotated[
        bool, typer.Option("--options", help="Score every option in the answer's place, too.")
    ] = False,
    order_joint: Annotated[
        bool,
        typer.Option(
            "--order-joint", help="Shards in released and shuffled order; needs --budget."
        ),
    ] = False,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="TOKENS", min=1, help="Of --order-joint.")
    ] = None,
    context: Annotated[
        int, typer.Option("--context", metavar="TOKENS", min=16, help="Longest shard.")
    ] = 4096,
    interleaved: Annotated[
        bool,
        typer.Option("--interleaved", help="Pictures stand in the order tests' documents, too."),
    ] = False,
    order_neighbour: Annotated[
        bool,
        typer.Option("--order-neighbour", help="Items after their predecessor and after others."),
    ] = False,
    limit: Limit = None,
    api_key_env: ApiKeyEnv = None,
    rate: Rate = None,
    timeout: Timeout = 120.0,
    attempts: Attempts = None,
    concurrency: Concurrency = 4,
    parity: Annotated[
        str | None,
        typer.Option(
            "--parity",
            metavar="FOLDER",
            help="Compare a sample with this local copy of the model first.",
        ),
    ] = None,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Of --recorded: items without a score are dropped."),
    ] = False,
    columns: MapRecorded = [],  # noqa: B006 - typer copies defaults
    mapping: Map = [],  # noqa: B006
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score every answer of a benchmark with one model; several models go into one run folder.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again.
    """
    if recorded is not None and endpoint is not None:
        raise InputError(
            "--recorded reads a file, --endpoint asks a server: leave out one of the two"
        )
    if recorded is None and endpoint is None and model is None:
        raise InputError("what is to be scored? Give --model, --endpoint URL, or --recorded FILE")
    if order_joint != (budget is not None):
        raise InputError(
            "--order-joint and --budget TOKENS go together: a budget decides what is read"
        )
    if interleaved and not (order_joint or order_neighbour):
        raise InputError(
            "--interleaved is of --order-joint and --order-neighbour: name one of them"
        )
    if parity is not None and endpoint is None:
        raise InputError("--parity compares an --endpoint with a local copy: name the endpoint")
    plan = ScoringPlan(
        options=options,
        joint_budget=budget,
        context=context,
        interleaved=interleaved,
        neighbour=order_neighbour,
        limit=limit,
        seed=seed,
    )
    if recorded is not None and plan != ScoringPlan(context=context, seed=seed):
        raise InputError("--recorded takes what the file holds: it has no options, order or limit")
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
            made = import_scores(
                benchmark,
                recorded,
                run,
                model=name or model,
                allow_missing=allow_missing,
                mapping=parse_map(columns),
            )
    else:
        check_out(out, seed)
        local = local_settings(dtype, device, revision, trust, batch_tokens)
        extra: dict[str, Any] = {}
        scorer: Scorer
        if connection is not None:
            server = Endpoint.open(
                connection,
                model,
                concurrency=concurrency,
                dtype="unknown" if dtype == "auto" else dtype,
            )
            if parity is not None:
                extra["parity"] = _parity(benchmark, server, parity, local, seed)
            scorer, called = server, name or server.model
        else:
            assert model is not None
            scorer, called = open_model(model, **local), name or short_name(model)
        run = Run.create(out, seed=seed)
        with run.writing():
            tell = (lambda _: None) if quiet else complain
            made = [
                score_benchmark(
                    benchmark, scorer, run, called, plan, extra=extra, quiet=quiet, tell=tell
                )
            ]
    if as_json:
        print_json({"run": str(out), "models": [scoring.as_json() for scoring in made]})
        return
    for scoring in made:
        _show(scoring, out)


def _parity(
    benchmark: Benchmark, server: Endpoint, folder: str, settings: dict[str, Any], seed: int
) -> dict[str, Any]:
    parity = check_parity(server, open_model(folder, **settings), benchmark, seed=seed)
    if not parity.passed:
        raise InputError(
            f"{server.connection.url} and {folder} do not score alike: {parity.reason}. Nothing was "
            f"scored; serve the same checkpoint, processor and dtype, or score it with --model {folder}"
        )
    return {**parity.as_json(), "folder": folder}


def _show(made: Scoring, out: Path) -> None:
    screen = console()
    message = ", ".join(f"{count:,} {table}" for table, count in made.rows.items())
    screen.print(
        Text(f"{plain(made.model)}: {message}; {made.dropped:,} of {made.items:,} items dropped")
    )
    for check in made.checks:
        word = check.outcome.upper() if check.failed else check.outcome
        reason = Text(f"{check.name}: {plain(check.reason)}", "dim")
        screen.print(Text(word, _COLOURS[check.outcome]), reason)
    if any(check.failed for check in made.checks):
        screen.print(Text("every finding about this model will be not testable", "red"))
    screen.print(f"\nnext: heldout detect {out}", soft_wrap=True)
