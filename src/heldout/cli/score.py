"""heldout score: log-probabilities of every answer, from a local model, an endpoint or a file."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.text import Text

from heldout.benchmark import read_benchmark
from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.options import (
    MODEL_SHOWN,
    Bench,
    Images,
    Json,
    Map,
    ModelRun,
    Preset,
    Quiet,
    Reader,
    Verbose,
    parse_map_beside,
    shared_server,
)
from heldout.cli.show import complain, console, plain, print_dropped, print_json
from heldout.errors import counted
from heldout.model import ScoreSettings, Scoring, score
from heldout.store import Run

EXAMPLE = "Example: heldout score data/slake#split=test,lang=en --model models/qwen2.5-vl --out runs/slake"
SHOWN = (
    *MODEL_SHOWN,
    *panel(
        "What is scored",
        "options",
        "variants twin=BENCH",
        "entropies",
        "order_joint",
        "budget TOKENS",
        "context TOKENS",
        "interleaved",
        "order_neighbour",
        "allow_missing",
    ),
    Shown("endpoint.api_key_env", "VAR", flag="--api-key-env", panel="Endpoint"),
    *shared_server("endpoint"),
    Shown("parity", "FOLDER", panel="Endpoint"),
    Shown("seed"),
)
_COLOURS = {"passed": "green", "failed": "bold red", "not checked": "yellow"}


@command(ScoreSettings, SHOWN)
def score_command(
    settings: ScoreSettings,
    bench: Bench,
    out: ModelRun,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Score every answer of a benchmark with one model; several models go into one run folder.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again.
    """
    settings.require_source(settings.recorded)
    columns = parse_map_beside(mapping, settings.recorded)
    result = score(
        read_benchmark(bench, preset=preset, mapping=columns, images=images, reader=reader),
        settings,
        run=out,
        quiet=quiet,
        command=["heldout", *sys.argv[1:]],
        notify=complain,
    )
    if as_json:
        return print_json(result.as_json())
    for scoring in result.models:
        _show(scoring, out, verbose=verbose)
    return None


def _show(scoring: Scoring, out: Path, *, verbose: bool) -> None:
    screen = console()
    message = ", ".join(f"{count:,} {table}" for table, count in scoring.rows.items())
    screen.print(
        Text(
            f"{plain(scoring.model)}: {message}; {scoring.dropped:,} of {scoring.items:,} items dropped"
        )
    )
    if scoring.dropped or "twin_scores" in scoring.rows:
        print_dropped(Run.open(out), ("read", "benchmark", "score", "twins"))
    passed = [check for check in scoring.checks if check.outcome == "passed"]
    if passed and not verbose:
        checks = counted(len(passed), "self-check", "self-checks")
        screen.print(Text(f"{checks} passed; each with its numbers: --verbose", "dim"))
    for check in scoring.checks if verbose else (c for c in scoring.checks if c not in passed):
        word = check.outcome.upper() if check.failed else check.outcome
        reason = Text(f"{check.name}: {plain(check.reason)}", "dim")
        screen.print(Text(word, _COLOURS[check.outcome]), reason)
    for sentence in scoring.remarks:
        screen.print(Text(plain(sentence), "yellow"))
    if any(check.failed for check in scoring.checks):
        screen.print(Text("every finding about this model will be not testable", "red"))
    if any(scoring.rows.values()):
        screen.print(f"\nnext: heldout detect {out}", soft_wrap=True)
