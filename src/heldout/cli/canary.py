"""heldout canary: items planted before a release, and the exact test of a suspect model's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.benchmark import read_benchmark
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Images, Json, Map, Preset, Quiet, Reader, parse_map
from heldout.cli.show import console, plain, print_json
from heldout.cure import CanarySettings, check_canary, plant_canaries
from heldout.engine import progress

PLANT_EXAMPLE = "Example: heldout canary plant data/bench.jsonl --out release/bench"
TEST_EXAMPLE = "Example: heldout canary test runs/bench --key release/bench.key.json"

app = typer.Typer(
    name="canary",
    help="Plant items in a benchmark before its release that flag who trains on it.",
    no_args_is_help=True,
)
PLANT_SHOWN = tuple(Shown(name, "N") for name in ("items", "marks", "per_mark", "options", "seed"))


@app.command("plant", epilog=PLANT_EXAMPLE)
@command(CanarySettings, PLANT_SHOWN)
def plant_command(
    settings: CanarySettings,
    bench: Annotated[str, typer.Argument(metavar="BENCH", help="The benchmark to be released.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="New folder, which is released.")
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="The key, which is kept. Default: DIR.key.json."
        ),
    ] = None,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a benchmark with planted items, whose right answers are drawn, and the key that tells them."""
    benchmark = read_benchmark(
        bench, preset=preset, mapping=parse_map(mapping), images=images, reader=reader
    )
    planted = plant_canaries(benchmark, out=out, key=key, settings=settings, quiet=quiet)
    facts = planted.as_json()
    if as_json:
        print_json(facts)
        return
    screen = console()
    marks = facts["marks"]
    screen.print(
        f"planted {facts['items']} random-choice items and {len(marks)} marks in "
        f"{sum(marks.values())} items, of {facts['options']} options each"
    )
    for difference in planted.differences:
        screen.print(Text(f"reads back otherwise: {plain(difference)}", "bold red"))
    if facts["least_p"] > settings.level:
        message = (
            f"too few to flag anybody: all of them right has a probability of {facts['least_p']:.2g} for a model that "
            f"has not seen them, and it takes {settings.level:g}. Plant more before the release"
        )
        screen.print(Text(message, "bold red"))
    screen.print(f"\nrelease:     {planted.source.parent}", soft_wrap=True)
    screen.print(f"keep secret: {planted.key_file}", soft_wrap=True)
    screen.print(f"publish now: {facts['digest']}", soft_wrap=True)
    screen.print(
        "The digest, published with the benchmark, proves later that the key was not chosen to fit a model. "
        "Leave the planted items out of scores."
    )


@app.command("test", epilog=TEST_EXAMPLE)
@command(CanarySettings, (Shown("level", "P"),))
def test_command(
    settings: CanarySettings,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A run of heldout ask on the released benchmark, or a file with ids and predictions.",
        ),
    ],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="The key that was kept.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Only this model.")
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="SHA256", help="The digest that was published."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How likely is it to answer the planted items so well without having trained on them? Exact."""
    with progress("reading the answers", 1, "files", disabled=quiet) as step:
        test = check_canary(key, answers, model=model, digest=digest, settings=settings)
        step()
    if as_json:
        print_json(test.as_json())
        return
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    for name in ("model", "items", "marks", "unanswered", "p", "corrected", ""):
        table.add_column(name, justify="left" if name in ("model", "") else "right")
    for verdict in test.verdicts:
        word = (
            Text("flagged", "bold red")
            if verdict.flagged
            else Text("cannot be told", "yellow")
            if verdict.least > verdict.level
            else Text("not flagged", "green")
        )
        table.add_row(
            plain(verdict.model),
            f"{verdict.hits}/{verdict.items}",
            f"{verdict.activated}/{verdict.marks}",
            str(verdict.unanswered),
            f"{verdict.p:.2g}",
            f"{verdict.corrected:.2g}",
            word,
        )
    screen = console()
    screen.print(table)
    for verdict in test.verdicts:
        screen.print(plain(verdict.sentence), soft_wrap=True)
