"""heldout evaluate: suites of benchmarks, paired comparisons of models, published tables with intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from heldout.cli.options import (
    Attempts,
    BatchTokens,
    Device,
    Dtype,
    EngineName,
    Json,
    MapRecorded,
    Quiet,
    Rate,
    Revision,
    Seed,
    TrustRemoteCode,
    Workers,
    parse_map,
    per_second,
)
from heldout.cli.show import console, print_json
from heldout.errors import HeldoutError, InputError

MODELS, SUITE, SERVER = "Models", "Suite", "Endpoints"
EXAMPLE = (
    "Example: heldout evaluate medvlsynther --endpoint http://localhost:8000/v1 --out runs/qwen, "
    "then heldout evaluate --compare runs/qwen runs/tuned"
)


def _models(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=MODELS)


def _suite(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=SUITE)


def _server(*names: str, metavar: str, help: str, **bounds: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=SERVER, **bounds)


def evaluate_command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUITE",
            help="A built-in suite or a YAML file; with --compare: run folders; with --published: a table.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="RUN", help="Run folder, new or of this suite.")
    ] = None,
    models: Annotated[
        list[str],
        _models(
            "--model",
            metavar="NAME",
            help="A checkpoint to run here, or what the endpoint serves; may be given several times.",
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    endpoint: Annotated[
        str | None, _models("--endpoint", metavar="URL", help="OpenAI-compatible server.")
    ] = None,
    recorded: Annotated[
        list[str],
        _models(
            "--recorded",
            metavar="[BENCHMARK=]FILE",
            help="Answers made elsewhere: VLMEvalKit, lmms-eval, inspect_ai .eval, OpenAI batch results, "
            "csv, jsonl; may be given several times.",
        ),
    ] = [],  # noqa: B006
    name: Annotated[
        str | None, _models("--as", metavar="NAME", help="What the tables call the model.")
    ] = None,
    columns: MapRecorded = [],  # noqa: B006
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Compare the models of run folders, paired item by item."),
    ] = False,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Intervals for a table of published accuracies: which differences could be noise?",
        ),
    ] = False,
    suites: Annotated[
        bool, typer.Option("--suites", help="List the built-in suites and stop.")
    ] = False,
    sources: Annotated[
        list[str],
        _suite(
            "--source",
            metavar="[BENCHMARK=]PATH",
            help="Where a benchmark of the suite is, or all of them; may be given several times.",
        ),
    ] = [],  # noqa: B006
    images: Annotated[
        list[str],
        _suite("--images", metavar="BENCHMARK=DIR", help="Folder with the images of a benchmark."),
    ] = [],  # noqa: B006
    benchmarks: Annotated[
        list[str],
        _suite(
            "--benchmark", metavar="NAME", help="Only this benchmark; may be given several times."
        ),
    ] = [],  # noqa: B006
    leaks: Annotated[
        list[str],
        _suite(
            "--leaks",
            metavar="[BENCHMARK=]RUN",
            help="What leaked, by a run of heldout overlap or a table of labels: leaked and clean items "
            "are shown apart.",
        ),
    ] = [],  # noqa: B006
    scorers: Annotated[
        str | None,
        _suite(
            "--scorers",
            metavar="S,S",
            help="Published scorers beside strict grading; 'none' shows none. Default: the suite's.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="Only the first items of each benchmark.", rich_help_panel=SUITE
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", min=1, help="Longest reply.", rich_help_panel=SUITE),
    ] = None,
    api_key_env: Annotated[
        str | None, _server("--api-key-env", metavar="VAR", help="Variable that holds the key.")
    ] = None,
    concurrency: Annotated[
        int, _server("--concurrency", metavar="N", help="Requests at a time.", min=1, max=256)
    ] = 8,
    timeout: Annotated[
        float, _server("--timeout", metavar="S", help="Seconds that one request may take.", min=0.1)
    ] = 600.0,
    rate: Rate = None,
    attempts: Attempts = None,
    token_field: Annotated[
        str,
        _server(
            "--token-field",
            metavar="NAME",
            help="What the server calls the limit of a reply: max_completion_tokens …",
        ),
    ] = "max_tokens",
    price: Annotated[
        str | None,
        _server("--price", metavar="IN,OUT", help="Price of a million tokens read and written."),
    ] = None,
    dtype: Dtype = "auto",
    device: Device = "auto",
    batch_tokens: BatchTokens = None,
    revision: Revision = None,
    trust: TrustRemoteCode = False,
    seed: Seed = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate models on a suite: accuracy with intervals by image, unweighted mean, paired comparisons.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again.
    """
    from heldout.cli import evaluate_show as show

    given = what or []
    if suites:
        from heldout.evaluate import builtin_suites

        return show.print_suites(builtin_suites(), as_json)
    if compare:
        return _compare(given, seed, as_json)
    if published:
        return _published(given, as_json)
    if len(given) != 1 or out is None:
        raise InputError(
            "give one SUITE (a name of --suites, or a YAML file) and --out RUN; to compare run folders: "
            "heldout evaluate --compare RUN RUN"
        )
    prices = _prices(price)
    values: dict[str, Any] = {
        "suite": given[0],
        "recorded": tuple(recorded),
        "name": name,
        "leaks": tuple(leaks),
        "benchmarks": tuple(benchmarks),
        "sources": _sources(sources),
        "images": _folders(images),
        "limit": limit,
        "max_new_tokens": max_new_tokens,
        "scorers": _scorers(scorers),
        "dtype": dtype,
        "device": device,
        "revision": revision,
        "trust_remote_code": trust,
        "batch_tokens": batch_tokens,
        "mapping": parse_map(columns),
        "seed": seed,
        **prices,
    }
    if endpoint is not None:
        shared = {
            "url": endpoint,
            "key_env": api_key_env,
            "concurrency": concurrency,
            "timeout": timeout,
            "requests_per_second": per_second(rate),
            "token_field": token_field,
            **prices,
            **({} if attempts is None else {"attempts": attempts}),
        }
        named: list[str | None] = [*models] or [None]
        values["endpoints"] = tuple({**shared, "model": text} for text in named)
    else:
        values["models"] = tuple(models)
    from heldout.audit import evaluate_suite
    from heldout.evaluate import EvaluateSettings

    try:
        made = evaluate_suite(
            EvaluateSettings(**values),
            out=out,
            engine=engine,
            workers=workers,
            quiet=quiet or as_json,
        )
    except ValidationError as error:
        raise InputError(_sentence(error)) from error
    except HeldoutError as error:
        error.args = (re.sub(r"(?<![\w.])key_env\b", "--api-key-env", str(error)),)
        raise
    if as_json:
        return print_json(made.as_json())
    show.print_evaluation(made)
    console().print(f"\nreport: {made.run.path}/report.html", soft_wrap=True, markup=False)
    return None


def _compare(given: list[str], seed: int, as_json: bool) -> None:
    from heldout.cli import evaluate_show as show
    from heldout.evaluate import compare_runs

    if not given:
        raise InputError("--compare needs run folders: heldout evaluate --compare RUN_A RUN_B")
    made = compare_runs(given, seed=seed)
    if as_json:
        return print_json(show.comparison_json(made))
    return show.print_comparison(made)


def _published(given: list[str], as_json: bool) -> None:
    from heldout.cli import evaluate_show as show
    from heldout.evaluate import study_published

    if len(given) != 1:
        raise InputError("--published needs one table: a YAML file, or the name of a built-in one")
    made = study_published(given[0])
    if as_json:
        return print_json(made.as_json())
    return show.print_published(made)


def _sources(entries: list[str]) -> dict[str, str]:
    found = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        if not equals or "#" in name or Path(entry).exists():
            name, path = "*", entry
        if not name or not path:
            raise InputError(f"--source {entry}: expected BENCHMARK=PATH, as in SLAKE=data/slake")
        found[name] = path
    return found


def _folders(entries: list[str]) -> dict[str, str]:
    pairs = [entry.partition("=") for entry in entries]
    for name, _, folder in pairs:
        if not name or not folder:
            raise InputError(f"--images {name}: expected BENCHMARK=DIR, as in PathVQA=data/images")
    return {name: folder for name, _, folder in pairs}


def _scorers(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    from heldout.evaluate import SCORERS

    listed = tuple(
        part.strip() for part in text.split(",") if part.strip() and part.strip() != "none"
    )
    for one in listed:
        if one not in SCORERS:
            raise InputError(
                f"--scorers {one}: there is no such scorer; there are {', '.join(SCORERS)}"
            )
    return listed


def _prices(text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--price {text}: expected two numbers, of a million tokens read and written: 2.5,10"
        ) from None
    return {"price_in": read, "price_out": written}


_OPTIONS = {"models": "--model", "endpoints": "--endpoint", "name": "--as", "sources": "--source"}


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    said = first["msg"].removeprefix("Value error, ")
    field, colon, rest = said.partition(": ")
    if colon and field in _OPTIONS:
        return f"{_OPTIONS[field]}: {rest}"
    place = ".".join(str(part) for part in first["loc"])
    option = _OPTIONS.get(place, f"--{place.replace('_', '-')}") if place else ""
    return f"{option}: {said}".lstrip(": ")
