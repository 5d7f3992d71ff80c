"""heldout evaluate: suites of benchmarks, paired comparisons of models, published tables with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.options import EngineName, Json, Quiet, Seed, Workers, parse_prices, per_second
from heldout.cli.show import console, print_json
from heldout.errors import InputError
from heldout.evaluate import EvaluateSettings
from heldout.store import is_path

SERVER = "Endpoints"
EXAMPLE = (
    "Example: heldout evaluate medvlsynther --endpoint http://localhost:8000/v1 --out runs/qwen, "
    "then heldout evaluate --compare runs/qwen runs/tuned"
)


def _sources(entries: Sequence[str]) -> dict[str, str]:
    sources = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        if not equals or "#" in name or is_path(entry):
            name, path = "*", entry
        if not name or not path:
            raise InputError(f"--source {entry}: expected BENCHMARK=PATH, as in SLAKE=data/slake")
        sources[name] = path
    return sources


def _scorers(text: str) -> tuple[str, ...]:
    from heldout.evaluate import SCORERS

    names = tuple(
        part.strip() for part in text.split(",") if part.strip() and part.strip() != "none"
    )
    for name in names:
        if name not in SCORERS:
            raise InputError(
                f"--scorers {name}: there is no such scorer; there are {', '.join(SCORERS)}"
            )
    return names


SHOWN = (
    *panel(
        "Models",
        Shown(
            "models",
            "NAME",
            flag="--model",
            help="A checkpoint to run here, or what the endpoint serves; may be given several times.",
        ),
        Shown("endpoints.url", "URL", flag="--endpoint", convert=tuple, several=True),
        "recorded [BENCHMARK=]FILE",
        Shown("name", "NAME", flag="--as"),
        Shown("mapping", "FIELD=COLUMN", flag="--map-recorded"),
        "dtype",
        "device",
        "batch_tokens",
        "revision",
        "trust_remote_code",
    ),
    *panel(
        "Suite",
        Shown("sources", "[BENCHMARK=]PATH", flag="--source", convert=_sources, several=True),
        "images BENCHMARK=DIR",
        Shown("benchmarks", "NAME", flag="--benchmark"),
        "leaks [BENCHMARK=]RUN",
        Shown("scorers", "S,S", convert=_scorers),
        "limit",
        "max_new_tokens",
    ),
    *panel(
        SERVER,
        Shown("endpoints.api_key_env", "VAR", flag="--api-key-env"),
        Shown("endpoints.concurrency", "N", flag="--concurrency"),
        Shown("endpoints.timeout", "S", flag="--timeout"),
        Shown("endpoints.requests_per_second", "N/s", flag="--rate", convert=per_second),
        Shown("endpoints.attempts", "N", flag="--attempts"),
        Shown("endpoints.token_field", "NAME", flag="--token-field"),
    ),
)


def _prepare(values: dict[str, Any], options: Mapping[str, Any]) -> None:
    suites = options["what"] or []
    if len(suites) != 1 or options["out"] is None:
        raise InputError(
            "give one SUITE (a name of --suites, or a YAML file) and --out RUN; to compare run folders: "
            "heldout evaluate --compare RUN RUN"
        )
    values |= {"suite": suites[0], "seed": options["seed"]}
    prices = parse_prices(options["price"])
    values |= prices
    server = values.pop("endpoints", {})
    if urls := server.pop("url", ()):
        names = values.pop("models", None) or [None] * len(urls)
        if len(urls) == 1:
            urls = urls * len(names)
        if len(names) != len(urls):
            raise InputError(
                f"--endpoint is given {len(urls)} times and --model {len(names)} times: name one endpoint "
                f"that serves all models, or for each endpoint its model, in the same order"
            )
        values["endpoints"] = tuple(
            {**server, **prices, "url": url, "model": name}
            for url, name in zip(urls, names, strict=True)
        )


@command(EvaluateSettings, SHOWN, prepare=_prepare, unless=("compare", "published", "suites"))
def evaluate_command(
    settings: EvaluateSettings | None,
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
    price: Annotated[
        str | None,
        typer.Option(
            "--price",
            metavar="IN,OUT",
            help="Price of a million tokens read and written.",
            rich_help_panel=SERVER,
        ),
    ] = None,
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

    if suites:
        from heldout.evaluate import builtin_suites

        return show.print_suites(builtin_suites(), as_json)
    if compare:
        return _compare(what or [], seed, as_json)
    if published:
        return _published(what or [], as_json)
    from heldout.audit import evaluate_suite

    assert settings is not None and out is not None
    evaluation = evaluate_suite(
        settings, out=out, engine=engine, workers=workers, quiet=quiet or as_json
    )
    if as_json:
        return print_json(evaluation.as_json())
    show.print_evaluation(evaluation)
    console().print(f"\nreport: {evaluation.run.path}/report.html", soft_wrap=True, markup=False)
    return None


def _compare(folders: list[str], seed: int, as_json: bool) -> None:
    from heldout.cli import evaluate_show as show
    from heldout.evaluate import compare_runs

    if not folders:
        raise InputError("--compare needs run folders: heldout evaluate --compare RUN_A RUN_B")
    comparison = compare_runs(folders, seed=seed)
    if as_json:
        return print_json(show.comparison_json(comparison))
    return show.print_comparison(comparison)


def _published(tables: list[str], as_json: bool) -> None:
    from heldout.cli import evaluate_show as show
    from heldout.evaluate import study_published

    if len(tables) != 1:
        raise InputError("--published needs one table: a YAML file, or the name of a built-in one")
    study = study_published(tables[0])
    if as_json:
        return print_json(study.as_json())
    return show.print_published(study)
