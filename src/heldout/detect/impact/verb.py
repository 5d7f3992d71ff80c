"""The verb impact: what leaked, predictions or encoders in, a study out, kept beside the run."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from heldout.benchmark import Benchmark, read_benchmark
from heldout.detect.impact._predictions import Predictions
from heldout.detect.impact.impact import adjust_impacts
from heldout.detect.impact.study import (
    Study,
    add_impact,
    asked_besides,
    keep_study,
    known_items,
    study_impact,
)
from heldout.engine import Engine, open_engine
from heldout.errors import InputError
from heldout.evaluate import (
    EncoderEvaluation,
    EncoderSettings,
    EncoderTask,
    encoder_name,
    evaluate_encoder,
)
from heldout.evidence import LeakLabels, read_leak_labels
from heldout.overlap import Bounds, parse_bounds
from heldout.settings import Settings
from heldout.store import Run, write_table

# An encoder and a run in, impact out: what leaked pictures do to classification and retrieval.
#
# The published study's three tables from one call: zero-shot and supervised classification, and retrieval,
# each on leaked, non-leaked and size-matched random items.


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
            f"'{benchmark.name}' (revision {benchmark.fingerprint[:12]}): leaks of one do not apply "
            f"to the other. Give the benchmark that the run was made with"
        )


def _names(encoders: Sequence[EncoderSettings]) -> dict[str, str]:
    """By encoder what it is called; the whole of it where two folders have one name."""
    specs = list(dict.fromkeys(encoder.encoder for encoder in encoders))
    counts = Counter(encoder_name(spec) for spec in specs)
    return {spec: encoder_name(spec) if counts[encoder_name(spec)] == 1 else spec for spec in specs}


_OF_ENCODERS = (
    "tasks",
    "label",
    "caption",
    "templates",
    "class_names",
    "class_embeddings",
    "train",
    "embeddings",
)


class ImpactSettings(Settings):
    """Settings of ``heldout impact`` and ``heldout.impact``."""

    metric: str | None = None
    """accuracy, retrieval or loglik; default: what the columns of the predictions allow."""
    baseline: str | None = None
    """Predictions of a model that cannot have seen the benchmark: differences to it are shown. With an
    encoder: another encoder."""
    map: dict[str, str] = Field(default_factory=dict)
    """Columns of the predictions by field."""
    degrees: str | None = None
    """Similarities from which on a near picture is hard or soft, of the run's encoder (hard=H,soft=S);
    ``published`` is hard=.98,soft=.95."""
    queries: Annotated[int, Field(ge=2)] | None = None
    """Also draw so many items of every subset, ten times; default with an encoder: 200, as published."""
    encoder: tuple[str, ...] = ()
    """Evaluate these encoders on the benchmark: transformers:NAME, open_clip:MODEL/TAG, or saved:DIR with
    image and text embeddings in LAION's layout."""
    tasks: tuple[EncoderTask, ...] | None = None
    """Tasks of the encoders; default: all that can be done."""
    label: str | None = None
    """Column with an item's class; default: the answer."""
    caption: str | None = None
    """Column with an item's captions; default: the first that is called so."""
    templates: str | None = None
    """Class prompts: imagenet-80 (default), openai-7, simple, a file with a template per line, or a
    template with {}."""
    class_names: Path | None = None
    """Classes and their names (label, name); every class there is a candidate."""
    class_embeddings: Path | None = None
    """With saved:DIR: text embeddings of class prompts with a column label."""
    train: str | None = None
    """Labelled training set of the linear probe, a corpus."""
    embeddings: Path | None = None
    """Folder that keeps the training features, where other runs find them; default: the run."""
    seed: int = 0
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.encoder:
            for name in ("metric", "map"):
                if getattr(self, name):
                    raise ValueError(f"{name}: is of predictions; leave it out with an encoder")
            return self
        for name in _OF_ENCODERS:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: is of encoders; name one with the setting encoder")
        return self

    def encoder_settings(self, encoder: str) -> EncoderSettings:
        names = ("queries", "seed", *_OF_ENCODERS)
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return EncoderSettings.read({"encoder": encoder, **values})


def impact(
    predictions: str | Path | Benchmark | Sequence[str | Path],
    *,
    run: str | Path | Run | None = None,
    leaks: str | Path | None = None,
    benchmark: str | Path | Benchmark | None = None,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int | None = 1,
    quiet: bool = False,
    settings: ImpactSettings | None = None,
    **values: Any,
) -> Study:
    """Score leaked, non-leaked and size-matched random items apart, with intervals by cluster.

    Args:
        predictions: Files with id and prediction, correct, score, rank or loglik; several models in a
            column ``model`` or in several files. With an encoder: the benchmark it is evaluated on.
        run: A run of ``heldout overlap``: what leaked is what it found.
        leaks: What leaked by labels made elsewhere, a table of id and leaked; ``FILE#unlisted=clean`` if
            it lists leaked items only.
        benchmark: Of ``leaks`` without ``run``: the benchmark.
        out: File for all figures; default: ``impact-PREDICTIONS.json`` in the run.
        engine: Where encoders run: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes for encoders.
        quiet: Show no progress.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.detect.ImpactSettings``: ``metric``, ``baseline``, ``encoder``, …

    Returns:
        Scores and differences as data frames (``lines``, ``differences``), and where they were kept.

    Raises:
        InputError: Nothing says what leaked, or a file or setting does not fit.
    """
    chosen = ImpactSettings.choose(settings, values)
    if run is None and leaks is None:
        raise InputError("what leaked? Give a run of heldout overlap (run), or labels (leaks)")
    if benchmark is not None and (run is not None or leaks is None):
        raise InputError("benchmark: goes with leaks and without a run, which knows its benchmark")
    opened = run if isinstance(run, Run) or run is None else Run.open(run)
    bounds = parse_bounds(chosen.degrees) if chosen.degrees is not None else None
    if bounds is not None and (opened is None or leaks is not None):
        raise InputError("degrees: grades what a run's search found near; give run, not leaks")
    if chosen.encoder:
        items = _benchmark(_only(predictions))
        with open_engine(engine, workers) as opened_engine:
            study = study_encoders(
                opened,
                items,
                [chosen.encoder_settings(encoder) for encoder in chosen.encoder],
                baseline=(
                    chosen.encoder_settings(chosen.baseline)
                    if chosen.baseline is not None
                    else None
                ),
                labels=_labels(leaks, opened, items),
                bounds=bounds,
                engine=opened_engine,
                quiet=quiet,
            )
    else:
        known = _benchmark(benchmark) if benchmark is not None else None
        study = study_impact(
            opened,
            [Path(str(path)) for path in _several(predictions)],
            metric=chosen.metric,
            mapping=chosen.map,
            baseline=Path(chosen.baseline) if chosen.baseline is not None else None,
            labels=_labels(leaks, opened, known),
            benchmark=known,
            bounds=bounds,
            queries=chosen.queries,
            seed=chosen.seed,
        )
    study.run = opened
    study.path = keep_study(opened, study, Path(out) if out is not None else None)
    if study.path is not None and study.evaluations:
        study.items_path = keep_items(study, study.path)
    return study


def _several(sources: str | Path | Benchmark | Sequence[str | Path]) -> list[Any]:
    return [sources] if isinstance(sources, str | Path | Benchmark) else list(sources)


def _only(sources: str | Path | Benchmark | Sequence[str | Path]) -> str | Path | Benchmark:
    names = _several(sources)
    if len(names) != 1:
        raise InputError(
            f"with an encoder give one benchmark, found {len(names)}: {', '.join(map(str, names))}"
        )
    only: str | Path | Benchmark = names[0]
    return only


def _benchmark(source: str | Path | Benchmark) -> Benchmark:
    return source if isinstance(source, Benchmark) else read_benchmark(str(source))


def _labels(
    leaks: str | Path | None, run: Run | None, benchmark: Benchmark | None
) -> LeakLabels | None:
    if leaks is None:
        return None
    ids: list[str] = []
    if run is not None and run.table_path("items").exists():
        ids = run.read_table("items").column("benchmark_id").to_pylist()
    elif benchmark is not None:
        ids = [example.id for example in benchmark]
    return read_leak_labels(str(leaks), ids)
