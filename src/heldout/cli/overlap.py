"""heldout overlap: find a benchmark's images and texts in corpora."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import OverlapResult, PartResult, audit_overlap
from heldout.benchmark import read_benchmark
from heldout.cli.annotations import Annotate
from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.gate import show_gate
from heldout.cli.options import (
    Bench,
    EngineName,
    Images,
    Json,
    Map,
    Preset,
    Quiet,
    Reader,
    Seed,
    Verbose,
    Workers,
    parse_map,
    per_second,
)
from heldout.cli.show import (
    complain,
    console,
    print_claims,
    print_dropped,
    print_errors,
    print_json,
    print_outline,
    print_sources,
)
from heldout.corpus import is_recipe, suggested_recipe
from heldout.cure import GateResult, write_gate
from heldout.errors import InputError, counted
from heldout.overlap import OverlapSettings
from heldout.remote import use_cache
from heldout.report import claims_with_paths, outline_of, worst_first
from heldout.store import Run

EXAMPLE = (
    "Example: heldout overlap data/slake#split=test,lang=en "
    "--against zh=data/slake#split=train,lang=zh --out runs/slake"
)
CALIBRATION, NEAR, BENCHMARK, WORK = (
    "Calibration of nearness",
    "Near copies",
    "Benchmark",
    "The run",
)
SHOWN = (
    Shown("exact"),
    Shown("text", flag="--text/--no-text"),
    Shown("ocr"),
    *panel("Remote files", "cache DIR", "cache_gb"),
    *panel(NEAR, "encoder E", "nearest", "degrees hard=H,soft=S", "embeddings DIR"),
    *panel(
        "Paraphrases",
        "text_encoder E",
        "text_reader E",
        "text_fdr",
        "text_threshold",
        Shown("judge.url", "URL", help=OverlapSettings.model_fields["judge"].description or ""),
        "judge.model NAME",
        "judge.api_key_env VAR",
        "judge.concurrency",
        Shown(
            "judge.requests_per_second",
            "N/s",
            flag="--judge-rate",
            help="Most requests to the judge: 5/s, 100/m.",
            convert=lambda text: per_second(text, "--judge-rate"),
        ),
        "judge.timeout S",
        Shown("judge.max_tokens", flag="--judge-max-new-tokens"),
        "judge.token_field",
        "judge_all",
    ),
    *panel(
        CALIBRATION,
        "alpha",
        "cluster_column COLUMN",
        Shown("second_encoders", "E", flag="--second-encoder"),
    ),
    Shown("allow_unread", "KIND"),
    Shown("part", "K/N"),
)


@command(OverlapSettings, SHOWN)
def overlap_command(
    settings: OverlapSettings,
    bench: Bench,
    against: Annotated[
        list[str],
        typer.Option(
            "--against", metavar="[NAME=]CORPUS", help="What it may have leaked into; repeatable."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="RUN", help="Run folder; an unfinished one is continued."),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            metavar="N",
            help="Read only the first N items of every corpus, for a first look: as CORPUS#limit=N.",
        ),
    ] = None,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate",
            help="The corpora are training sets: write to RUN/gate which of their rows to remove so "
            "that this benchmark does not leak (table, ids, JUnit), and exit 1 if there are any.",
        ),
    ] = False,
    null: Annotated[
        str | None,
        typer.Option(
            "--null",
            metavar="[NAME=]SOURCE",
            help="Calibrate on these images, known not to be in the corpora, instead of each corpus "
            "against itself.",
            rich_help_panel=CALIBRATION,
        ),
    ] = None,
    controls: Annotated[
        list[str],
        typer.Option(
            "--control",
            metavar="NAME=SOURCE:DOMAIN",
            help="Images that cannot be in the corpora and must not be flagged; DOMAIN is in-domain "
            "(the benchmark's kind) or out-of-domain. Repeatable.",
            rich_help_panel=CALIBRATION,
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    engine: EngineName = "local",
    workers: Workers = None,
    seed: Seed = 0,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace the results of a wider search that RUN holds; default: refuse.",
        ),
    ] = False,
    annotate: Annotate = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Find the images and texts of a benchmark in corpora: exact copies, re-encoded, resized, grey, flipped
    and turned ones, and where OpenCV is installed also cropped, framed or compounded ones. Every copy is verified.

    A killed run goes on where it was when the same command is given again.
    """
    if gate and settings.part is not None:
        raise InputError("gate: of a whole search: merge the parts, then call heldout gate")
    if gate and limit is not None:
        raise InputError("gate: the rows after the limit would pass unseen: leave the limit out")
    use_cache(settings.cache, settings.cache_gb)
    result = audit_overlap(
        read_benchmark(
            bench, preset=preset, mapping=parse_map(mapping), images=images, reader=reader
        ),
        against if limit is None else [_limited(source, limit) for source in against],
        out,
        engine,
        settings=settings,
        null=null,
        controls=controls,
        workers=workers,
        seed=seed,
        replace=replace,
        quiet=quiet,
        command=["heldout", *sys.argv[1:]],
        notify=complain,
    )
    if isinstance(result, PartResult):
        show_part(result, as_json=as_json)
        return
    gate_result = write_gate(result.run, result.run.path / "gate") if gate else None
    show_overlap(result, gate_result, verbose=verbose, as_json=as_json, annotate=annotate)


def _limited(source: str, limit: int) -> str:
    if is_recipe(source):
        raise InputError(f"limit: {source} is a recipe: write #limit={limit} behind its sources")
    return f"{source}{',' if '#' in source else '#'}limit={limit}"


def print_recipes(run: Run) -> None:
    """Where a folder holds several data sets: how to see what each of them holds."""
    for stage in run.manifest()["stages"].values():
        if recipe := suggested_recipe(stage["source"]):
            console().print(
                f"\n{stage['corpus']} holds several data sets. To see what each holds, and to weigh them as training "
                f"does, write {stage['source']}/corpora.yaml and give it to --against:",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )
            console().print(recipe, soft_wrap=True, highlight=False, markup=False)


def show_part(result: PartResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
        return
    pieces = counted(result.shards, "piece", "pieces")
    out = console()
    out.print(
        f"part {result.part}: {pieces} of the corpus searched, {result.run.path}", soft_wrap=True
    )
    if result.failed:
        failed = counted(len(result.failed), "piece", "pieces")
        out.print(
            f"{failed} of the corpus without a result; heldout merge tries them again",
            soft_wrap=True,
        )
    out.print("\nWith all parts: heldout merge RUN… --out RUN", soft_wrap=True, highlight=False)


def show_overlap(
    result: OverlapResult,
    gate_result: GateResult | None,
    *,
    verbose: bool,
    as_json: bool,
    annotate: bool = False,
) -> None:
    """Print what a search concludes; exit with 1 where the gate failed."""
    if as_json:
        record = result.as_json()
        print_json(record if gate_result is None else {**record, "gate": gate_result.as_json()})
    else:
        print_outline(outline_of(result.run))
        print_sources(worst_first(result.sources))
        print_errors(result.run)
        print_dropped(result.run, ("read", "benchmark"), of="the benchmark")
        print_dropped(result.run, ("corpus",), of="the corpus")
        print_recipes(result.run)
        if verbose:
            console().print()
            print_claims(claims_with_paths(result.conclusion.claims, result.run))
        console().print(f"\nreport: {result.report}", soft_wrap=True)
    if gate_result is not None:
        if not as_json:
            console().print()
        show_gate(gate_result, quiet=as_json, annotate=annotate and not as_json)
