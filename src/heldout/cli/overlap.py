"""heldout overlap: find a benchmark's images in corpora."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import audit_overlap, replaced_by
from heldout.benchmark import read_benchmark
from heldout.cli.calibration import (
    ALPHA,
    Alpha,
    Controls,
    NullSource,
    SecondEncoder,
    calibration_plan,
)
from heldout.cli.gate import Gated, tell_gate
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
    Workers,
    parse_map,
    parse_named,
)
from heldout.cli.show import complain, console, identify, print_claims, print_json
from heldout.cli.text import (
    JUDGE_TOKENS,
    JudgeAll,
    JudgeConcurrency,
    JudgeKey,
    JudgeModel,
    JudgeOptions,
    JudgeRate,
    JudgeTimeout,
    JudgeTokenField,
    JudgeTokens,
    JudgeUrl,
    Text,
    TextEncoder,
    text_search,
)
from heldout.corpus import open_corpus
from heldout.cure import write_gate
from heldout.engine import open_engine
from heldout.errors import InputError, require
from heldout.overlap import NEAREST, NO_OPENCV, ModelJudge, NearSearch, can_register, parse_bounds
from heldout.store import Run

EXAMPLE = (
    "Example: heldout overlap data/slake#split=test,lang=en "
    "--against zh=data/slake#split=train,lang=zh --out runs/slake"
)


def overlap_command(
    bench: Bench,
    against: Annotated[
        list[str],
        typer.Option(
            "--against", metavar="[NAME=]CORPUS", help="What it may have leaked into; repeatable."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder; an unfinished one goes on.")
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="E",
            help="Also look for transformed copies among near neighbours: pixels (no weights), "
            "onnx:FILE, torchscript:FILE, transformers:NAME, open_clip:MODEL/TAG.",
        ),
    ] = None,
    nearest: Annotated[
        int, typer.Option("--nearest", min=1, help="Neighbours of each picture to verify.")
    ] = NEAREST,
    degrees: Annotated[
        str | None,
        typer.Option(
            "--degrees",
            metavar="hard=H,soft=S",
            help="Similarities from which on the encoder's neighbours are hard or soft (default: those "
            "measured for it); 'published' is hard=.98,soft=.95.",
        ),
    ] = None,
    text: Text = False,
    text_encoder: TextEncoder = None,
    judge: JudgeUrl = None,
    judge_model: JudgeModel = None,
    judge_api_key_env: JudgeKey = None,
    judge_concurrency: JudgeConcurrency = 4,
    judge_rate: JudgeRate = None,
    judge_timeout: JudgeTimeout = 120.0,
    judge_max_new_tokens: JudgeTokens = JUDGE_TOKENS,
    judge_token_field: JudgeTokenField = "max_tokens",
    judge_all: JudgeAll = False,
    gate: Gated = False,
    alpha: Alpha = ALPHA,
    null: NullSource = None,
    control: Controls = [],  # noqa: B006 - typer copies defaults
    second_encoder: SecondEncoder = [],  # noqa: B006 - typer copies defaults
    embeddings: Annotated[
        Path | None,
        typer.Option(
            "--embeddings",
            metavar="DIR",
            help="Keep the corpora's embeddings here, where other runs find them (else in RUN).",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Only equal bytes and pixels: faster, and blind to the rest."),
    ] = False,
    engine: EngineName = "local",
    workers: Workers = None,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find every image of a benchmark in corpora: exact copies, re-encoded, resized, grey, flipped and
    turned ones, and with --encoder cropped, framed or compounded ones. Every copy is verified.

    A killed run goes on where it was when the same command is given again.
    """
    if embeddings is not None and encoder is None:
        raise InputError("--embeddings keeps what an --encoder makes: name one, or leave it out")
    if degrees is not None and encoder is None:
        raise InputError(
            "--degrees grades the neighbours of an --encoder: name one, or leave it out"
        )
    bounds = parse_bounds(degrees) if degrees is not None else None
    if exact and encoder is not None:
        raise InputError("--exact looks for nothing an --encoder finds: leave out one of the two")
    judging = JudgeOptions(
        judge,
        judge_model,
        judge_api_key_env,
        judge_concurrency,
        judge_rate,
        judge_timeout,
        judge_max_new_tokens,
        judge_token_field,
        judge_all,
    ).open(text, text_encoder)
    benchmark = read_benchmark(
        bench, preset=preset, mapping=parse_map(mapping), images=images, reader=reader
    )
    corpora = [
        open_corpus(source, name=name) for name, source in (parse_named(one) for one in against)
    ]
    calibration = calibration_plan(encoder, alpha, null, control, second_encoder)
    run = Run.create(out, seed=seed)
    identify(benchmark, quiet=quiet)
    if replaced := replaced_by(run, corpora):
        complain(
            f"{out} speaks of {', '.join(replaced)} so far, and will speak of these corpora alone"
        )
    near = None
    if encoder is not None:
        require("cv2", "vision", "telling copies from look-alikes")
        near = NearSearch(encoder, nearest, embeddings, bounds)
    elif not exact and not can_register():
        complain(f"pairs that look alike will be listed, not verified: {NO_OPENCV}")
    with open_engine(engine, workers) as chosen:
        conclusion = audit_overlap(
            benchmark,
            corpora,
            run,
            chosen,
            near=near,
            hashes=not exact,
            calibration=calibration,
            text=text_search(text, text_encoder),
            judge=ModelJudge.of(run, judging, quiet=quiet) if judging is not None else None,
            judge_every=judge_all,
            quiet=quiet,
        )
    gated = write_gate(run, run.path / "gate") if gate else None
    if as_json:
        record = conclusion.as_json()
        print_json(record if gated is None else {**record, "gate": gated.as_json()})
    else:
        print_claims(conclusion.claims)
        console().print(f"\nreport: {conclusion.report}", soft_wrap=True)
    if gated is not None:
        tell_gate(gated, quiet=as_json)
