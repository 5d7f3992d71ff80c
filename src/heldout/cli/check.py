"""heldout check: lint a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.benchmark import CheckSettings, check, read_benchmark
from heldout.cli.annotations import Annotate, annotate_check, check_junit
from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Images, Json, Map, Preset, Quiet, Reader, parse_map
from heldout.cli.show import identify, print_check, print_json, print_prompts
from heldout.model import shown_prompts
from heldout.store import write_atomic

EXAMPLE = "Example: heldout check data/vqa_rad#split=test --split-of data/vqa_rad#split=train"


@command(CheckSettings, (Shown("strict"), Shown("examples", "N"), Shown("ocr")))
def check_command(
    settings: CheckSettings,
    bench: Annotated[
        str, typer.Argument(metavar="BENCH", help="A path, path#split=test,lang=en, or a preset.")
    ],
    split_of: Annotated[
        str | None,
        typer.Option("--split-of", metavar="BENCH", help="Another split: what do the two share?"),
    ] = None,
    show: Annotated[
        int,
        typer.Option(
            "--show",
            metavar="N",
            min=0,
            help="Also print the first N prompts as a model gets them.",
        ),
    ] = 0,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write what was found as JUnit XML, for CI."),
    ] = None,
    annotate: Annotate = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Lint a benchmark: most false alarms of contamination start there.

    Exit code 1 if something was found that makes its scores wrong.
    """
    fields = parse_map(mapping)
    benchmarks = [
        read_benchmark(source, preset=preset, mapping=fields, images=images, reader=reader)
        for source in (bench, split_of)
        if source is not None
    ]
    for benchmark in benchmarks:  # only now: a wrong --split-of is noticed before the long part
        identify(benchmark, quiet=quiet)
    report = check(*benchmarks, settings=settings)
    prompts = shown_prompts(benchmarks[0], show)
    if junit is not None:
        write_atomic(junit, check_junit([report]))
    if as_json:
        record = {**report.model_dump(mode="json"), "ok": report.ok}
        print_json({**record, "prompts": prompts} if show else record)
    else:
        print_check(report)
        print_prompts(prompts)
        if annotate:
            annotate_check(report)
    if not report.ok:
        raise typer.Exit(1)
