"""An encoder and a run in, impact out: what leaked pictures do to classification and retrieval.

The published study's three tables from one call: zero-shot and supervised classification, and retrieval,
each on leaked, non-leaked and size-matched random items.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark
from heldout.detect.impact.findings import adjust_impacts
from heldout.detect.impact.predictions import Predictions
from heldout.detect.impact.study import Study, add_impact, asked_besides, known_items
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate import (
    EncoderEvaluation,
    EncoderSettings,
    EncoderTask,
    encoder_name,
    evaluate_encoder,
)
from heldout.evidence import LeakLabels
from heldout.overlap import Bounds
from heldout.store import Run, write_table

# What the published study draws queries for; classification is measured on all items.
RETRIEVAL = (EncoderTask.IMAGE_TO_TEXT, EncoderTask.TEXT_TO_IMAGE)


def study_encoders(
    run: Run | None,
    benchmark: Benchmark,
    encoders: Sequence[EncoderSettings],
    *,
    baseline: EncoderSettings | None = None,
    labels: LeakLabels | None = None,
    bounds: Bounds | None = None,
    engine: Engine | None = None,
    quiet: bool = False,
) -> Study:
    """One impact per encoder and task; with ``baseline``, of the difference to it on the same items.

    Args:
        run: Run folder of an overlap search of ``benchmark``; it keeps what is embedded.
        benchmark: Pictures with classes, captions, or both.
        encoders: Settings of each encoder; they differ in the encoder alone.
        baseline: An encoder that cannot have seen the benchmark.
        labels: What leaked by labels made elsewhere, in place of the run's matches.
        bounds: Degrees of the run's search encoder, in place of those it was made with.
        engine: Where encoders run; default: this process.
        quiet: Show no progress.
    """
    if run is not None:
        _same_benchmark(run, benchmark)
    known = known_items(run, labels, benchmark, bounds)
    names = _names([*encoders, *([baseline] if baseline is not None else [])])
    first = encoders[0]
    study = Study(benchmark.name, first.seed, labels=labels)
    study.call = {
        "encoders": [names[encoder.encoder] for encoder in encoders],
        "baseline": names[baseline.encoder] if baseline is not None else None,
        "settings": [json.loads(encoder.model_dump_json()) for encoder in encoders],
        "seed": first.seed,
        **asked_besides(labels, bounds, first.queries),
    }
    with run.writing() if run is not None else contextlib.nullcontext():
        control = None
        if baseline is not None:
            encoder_evaluation = evaluate_encoder(benchmark, baseline, run, engine, quiet=quiet)
            control = {
                prediction.metric: prediction
                for prediction in _predictions(encoder_evaluation, names[baseline.encoder])
            }
        for settings in encoders:
            encoder_evaluation = evaluate_encoder(benchmark, settings, run, engine, quiet=quiet)
            study.evaluations.append(encoder_evaluation)
            for task in _predictions(encoder_evaluation, names[settings.encoder]):
                against = None if control is None else control.get(task.metric)
                if control is not None and against is None:
                    raise InputError(f"the baseline cannot be measured by {task.metric}")
                drawn = settings.queries if task.metric in RETRIEVAL else None
                add_impact(study, known, task, against, drawn)
    adjust_impacts(study.impacts)
    return study


def keep_items(study: Study, path: Path) -> Path:
    """What every encoder did on every item, beside a study's figures: ``impact-E.items.parquet``."""
    import polars as pl

    target = path.with_suffix(".items.parquet")
    write_table(
        target, pl.concat([evaluation.items for evaluation in study.evaluations]).to_arrow()
    )
    return target


def _predictions(encoder_evaluation: EncoderEvaluation, name: str) -> list[Predictions]:
    return [
        Predictions(
            f"{name}: {task.task}",
            task.task.value,
            task.measures,
            [*encoder_evaluation.dropped, *task.dropped],
            read_from=encoder_evaluation.encoder,
            remarks=[f"{name}: {remark}" for remark in task.remarks],
        )
        for task in encoder_evaluation.tasks
    ]


def _same_benchmark(run: Run, benchmark: Benchmark) -> None:
    about: dict[str, Any] = run.manifest()["inputs"].get("benchmark") or {}
    if about.get("fingerprint") not in (None, benchmark.fingerprint):
        raise InputError(
            f"{run.path} is about '{about['name']}' (revision {about['fingerprint'][:12]}), not about "
            f"'{benchmark.name}' (revision {benchmark.fingerprint[:12]}): what leaked of one says nothing "
            f"of the other. Give the benchmark that the run was made with"
        )


def _names(encoders: Sequence[EncoderSettings]) -> dict[str, str]:
    """By encoder what it is called; the whole of it where two folders have one name."""
    specs = list(dict.fromkeys(encoder.encoder for encoder in encoders))
    counts = Counter(encoder_name(spec) for spec in specs)
    return {spec: encoder_name(spec) if counts[encoder_name(spec)] == 1 else spec for spec in specs}
