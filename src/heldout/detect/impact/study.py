"""Predictions and leaks in, impact out: which items take part, and what was left out and why."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from heldout.benchmark import Benchmark, items_table
from heldout.detect.impact._predictions import (
    NO_PREDICTION,
    Predictions,
    items_as_benchmark,
    read_predictions,
)
from heldout.detect.impact.impact import (
    Block,
    Impact,
    Line,
    ScoreDifference,
    adjust_impacts,
    blocks,
    impact_findings,
    label_blocks,
    measure_impact,
)
from heldout.errors import InputError, blame_the_machine
from heldout.evaluate import EncoderEvaluation
from heldout.evidence import ItemLeaks, LeakLabels, leaks_of
from heldout.model import OwnGrades, Unread, recorded_remarks
from heldout.overlap import Bounds
from heldout.store import Dropped, Run, write_json

IMPACT_VERSION = 2  # 2: leakage is copy, undecided, hard, soft or text; 1 called copies hard


@dataclass
class Study:
    benchmark: str
    seed: int
    impacts: list[Impact] = field(default_factory=list)
    dropped: dict[str, list[Dropped]] = field(default_factory=dict)  # by model
    call: dict[str, Any] = field(default_factory=dict)  # what was asked: files, metric, mapping
    labels: LeakLabels | None = None  # made elsewhere, in place of a scan's matches
    #: by model: the column that was measured, the file's own grades, items with an empty prediction
    read_from: dict[str, str] = field(default_factory=dict)
    own_grades: dict[str, OwnGrades] = field(default_factory=dict)
    empty: dict[str, list[str]] = field(default_factory=dict)
    unread: dict[str, Unread] = field(default_factory=dict)  # where an answer was not understood
    encoder_remarks: dict[str, list[str]] = field(default_factory=dict)
    evaluations: list[EncoderEvaluation] = field(default_factory=list)  # where encoders were run
    run: Run | None = None
    path: Path | None = None  # where all figures were kept, and every item of encoders
    items_path: Path | None = None

    @property
    def lines(self) -> pl.DataFrame:
        """One row per model, subset, kind of leakage and measure."""
        rows = [
            {"model": impact.model, **_flat(line)}
            for impact in self.impacts
            for line in impact.lines
        ]
        return _numbers_as_such(pl.DataFrame(rows, infer_schema_length=None))

    @property
    def differences(self) -> pl.DataFrame:
        """One row per model, kind of leakage and measure: with these leaks less without."""
        rows = [
            {"model": impact.model, **_flat(owed)}
            for impact in self.impacts
            for owed in impact.owed
        ]
        return _numbers_as_such(pl.DataFrame(rows, infer_schema_length=None))

    def __repr__(self) -> str:
        models = ", ".join(dict.fromkeys(impact.model for impact in self.impacts))
        return (
            f"<Study of {self.benchmark}: impact of leaks on {models}, {self.path or 'not kept'}>"
        )

    def _repr_html_(self) -> str:
        return self.lines._repr_html_()

    def remarks(self, model: str) -> list[str]:
        """Remarks on a model's file, or on its encoder, as sentences."""
        messages = recorded_remarks(self.own_grades.get(model), self.empty.get(model, ()))
        messages = [*self.encoder_remarks.get(model, ()), *messages]
        unread = self.unread.get(model)
        return messages if unread is None else [unread.unparsed_sentence(), *messages]

    def as_json(self) -> dict[str, Any]:
        findings = [
            f
            for impact in self.impacts
            for f in impact_findings(
                impact, self.benchmark, self.seed, labelled=self.labels is not None
            )
        ]
        return {
            "impact_version": IMPACT_VERSION,
            "benchmark": self.benchmark,
            "seed": self.seed,
            "call": self.call,
            "labels": self.labels.summary() if self.labels is not None else None,
            "impacts": [impact.as_json() for impact in self.impacts],
            "findings": [finding.model_dump(mode="json") for finding in findings],
            "read_from": self.read_from,
            "own_grades": {model: own.as_json() for model, own in self.own_grades.items()},
            "empty_predictions": self.empty,
            "unparsed_predictions": {
                model: list(unread.unparsed) for model, unread in self.unread.items()
            },
            "remarks": {impact.model: self.remarks(impact.model) for impact in self.impacts},
            **(
                {"encoders": [_about(evaluation) for evaluation in self.evaluations]}
                if self.evaluations
                else {}
            ),
            "dropped": {
                model: [{"id": d.id, "reason": d.reason, "detail": d.detail} for d in dropped]
                for model, dropped in self.dropped.items()
            },
        }


def _numbers_as_such(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns in which no row has a number are columns of numbers all the same."""
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64))


def _flat(record: Line | ScoreDifference) -> dict[str, Any]:
    """A record with its intervals as two columns each."""
    fields: dict[str, Any] = {}
    for name, value in vars(record).items():
        if name in ("interval", "gain_interval"):
            fields[name.replace("interval", "low")] = None if value is None else value.low
            fields[name.replace("interval", "high")] = None if value is None else value.high
        else:
            fields[name] = value
    return fields


def _about(encoder_evaluation: EncoderEvaluation) -> dict[str, Any]:
    return {
        "name": encoder_evaluation.name,
        "identity": encoder_evaluation.encoder,
        "skipped": encoder_evaluation.skipped,
        "tasks": {task.task.value: task.details for task in encoder_evaluation.tasks},
    }


@dataclass(frozen=True)
class KnownItems:
    """The items, and which of them leaked by a search or by labels."""

    benchmark: Benchmark
    table: list[dict[str, Any]]
    leaks: Mapping[str, ItemLeaks]
    labels: LeakLabels | None

    def blocks(self, ids: Sequence[str]) -> list[Block]:
        return (
            blocks(ids, self.leaks) if self.labels is None else label_blocks(ids, self.labels.kinds)
        )

    def unknown(self, row: Mapping[str, Any]) -> tuple[str, str] | None:
        """Why it is not known whether an item leaked; None if it is known."""
        identifier = row["benchmark_id"]
        if self.labels is not None:
            return (
                None if identifier in self.labels.kinds else ("no leak label", "not in the labels")
            )
        if "" in row["image_digests"] and identifier not in self.leaks:
            detail = "an image was missing, unreadable or flat: it is not known whether it leaked"
            return "image not compared", detail
        return None


def study_impact(
    run: Run | None,
    files: Sequence[Path],
    *,
    metric: str | None = None,
    mapping: Mapping[str, str] | None = None,
    baseline: Path | None = None,
    labels: LeakLabels | None = None,
    benchmark: Benchmark | None = None,
    bounds: Bounds | None = None,
    queries: int | None = None,
    seed: int = 0,
) -> Study:
    """Measure what leaked items contribute to the scores of models.

    Args:
        run: The run whose search found what leaked; None where ``labels`` say it.
        files: Files of predictions; one impact per model.
        metric: Column that holds the score of an item; default: the file's own.
        mapping: Columns of the files by field.
        baseline: Predictions of a model that cannot have seen the benchmark: impacts are of the
            difference to it.
        labels: What leaked, as somebody else labelled it.
        benchmark: The items, where there is no run; default: what labels and predictions say of them.
        bounds: Hard and soft similarities of the run's encoder.
        queries: Also draw so many items of each subset.
        seed: Seed of every random draw.
    """
    known = known_items(run, labels, benchmark, bounds)
    control = _control(baseline, known.benchmark, metric, mapping)
    study = Study(known.benchmark.name, seed, labels=labels)
    study.call = {
        "predictions": [str(path.resolve()) for path in files],
        "baseline": str(baseline.resolve()) if baseline is not None else None,
        "metric": metric,
        "map": dict(sorted((mapping or {}).items())),
        "seed": seed,
        **asked_besides(labels, bounds, queries),
    }
    for path in files:
        for model in read_predictions(path, known.benchmark, metric=metric, mapping=mapping):
            if model.model in study.dropped:
                raise InputError(
                    f"two files hold predictions of '{model.model}': rename one, or name the models "
                    f"in a column 'model'"
                )
            add_impact(study, known, model, control, queries)
    adjust_impacts(study.impacts)
    return study


def asked_besides(
    labels: LeakLabels | None, bounds: Bounds | None, queries: int | None
) -> dict[str, Any]:
    """Arguments that are kept only if they were given: older files lack these keys."""
    record: dict[str, Any] = {}
    if labels is not None:
        record |= {"leaks": labels.source, "leaks_sha256": labels.sha256}
    if bounds is not None:
        record["degrees"] = str(bounds)
    if queries is not None:
        record["queries"] = queries
    return record


def add_impact(
    study: Study,
    known: KnownItems,
    model: Predictions,
    control: Predictions | None,
    queries: int | None,
) -> None:
    """The impact on one model's measures, less those of ``control`` on the same items."""
    if control is not None:
        subtract(model, control)
    rows = _taking_part(known, model)
    identifiers = [row["benchmark_id"] for row in rows]
    values = {
        name: np.array([measured[identifier] for identifier in identifiers])
        for name, measured in model.measures.items()
    }
    clusters = [row["cluster"] for row in rows]
    study.impacts.append(
        measure_impact(
            model.model,
            model.metric,
            values,
            clusters,
            known.blocks(identifiers),
            difference=control is not None,
            queries=queries,
            seed=study.seed,
        )
    )
    study.dropped[model.model] = model.dropped
    study.read_from[model.model] = model.read_from
    if model.own_grades is not None:
        study.own_grades[model.model] = model.own_grades
    if model.empty:
        study.empty[model.model] = model.empty
    if model.remarks:
        study.encoder_remarks[model.model] = model.remarks
    if model.unread.unparsed:
        study.unread[model.model] = model.unread


def known_items(
    run: Run | None,
    labels: LeakLabels | None,
    benchmark: Benchmark | None,
    bounds: Bounds | None = None,
) -> KnownItems:
    """Items and what leaked of them, by a run's scan or by labels made elsewhere."""
    if run is not None:
        about = run.manifest()["inputs"].get("benchmark")
        scanned = run.table_path("matches").exists()
        if about is None or not (scanned or labels is not None):
            raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
        table = run.read_table("items").to_pylist()
        leaks = leaks_of(run, bounds) if labels is None else {}
        return KnownItems(items_as_benchmark(about["name"], table), table, leaks, labels)
    if labels is None:
        raise InputError("what leaked? Give a run folder of heldout overlap, or leak labels")
    if benchmark is not None:
        return KnownItems(benchmark, items_table(benchmark).to_pylist(), {}, labels)
    table = [
        {
            "benchmark_id": kind,
            "cluster": labels.clusters.get(kind, kind),
            "question": None,
            "options": [],
            "answer": None,
            "image_digests": [],
        }
        for kind in labels.kinds
    ]
    return KnownItems(items_as_benchmark(Path(labels.source).name, table), table, {}, labels)


def _taking_part(known: KnownItems, model: Predictions) -> list[Mapping[str, Any]]:
    """Items with a prediction, of which it is known whether they leaked."""
    measured = next(iter(model.measures.values()))
    refused = {drop.id for drop in model.dropped}
    rows: list[Mapping[str, Any]] = []
    for row in known.table:
        identifier = row["benchmark_id"]
        if identifier not in measured:
            if identifier not in refused:
                detail = "the file has no row for this item"
                model.dropped.append(Dropped("impact", identifier, NO_PREDICTION, detail))
        elif (why := known.unknown(row)) is not None:
            model.dropped.append(Dropped("impact", identifier, *why))
        else:
            rows.append(row)
    if not rows:
        what = "an image that was compared" if known.labels is None else "a leak label"
        raise InputError(f"{model.model}: no item has both a prediction and {what}")
    return rows


def _control(
    path: Path | None, benchmark: Benchmark, metric: str | None, mapping: Mapping[str, str] | None
) -> Predictions | None:
    if path is None:
        return None
    predictions = read_predictions(path, benchmark, metric=metric, mapping=mapping)
    if len(predictions) > 1:
        names = ", ".join(prediction.model for prediction in predictions)
        raise InputError(f"baseline {path}: expected one model, found {names}")
    return predictions[0]


def subtract(model: Predictions, control: Predictions) -> None:
    """Measures less the baseline's on the same item; what the baseline lacks is dropped."""
    if set(model.measures) != set(control.measures):
        raise InputError(
            f"the baseline is measured by {', '.join(control.measures)}, {model.model} by "
            f"{', '.join(model.measures)}: choose one with the setting metric"
        )
    lost: set[str] = set()
    for name, measured in model.measures.items():
        other = control.measures[name]
        lost |= set(measured) - set(other)
        model.measures[name] = {
            item: value - other[item] for item, value in measured.items() if item in other
        }
    for identifier in sorted(lost):
        detail = f"{control.model} has no prediction for it"
        model.dropped.append(Dropped("impact", identifier, "no baseline", detail))
    model.model = f"{model.model} - {control.model}"
    model.remarks = [*model.remarks, *control.remarks]
    if not all(model.measures.values()):
        raise InputError(f"{model.model}: the two have no item in common")


# Studies kept in a run folder, one file per call: another model must not replace an earlier one.


PREFIX = "impact"
_LONGEST = 80  # characters of a name that is made of file names


def keep_study(run: Run | None, study: Study, out: Path | None = None) -> Path | None:
    """Write ``study`` to ``out``, or into ``run`` under a name of its own; a call replaces itself.

    None where there is neither.
    """
    if out is None and run is None:
        return None
    if out is None:
        assert run is not None
        with run.writing():
            name = _free_name(run, study)
            run.write_json(name, study.as_json())
        return run.path / name
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, study.as_json())
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written: {error.strerror}") from error
    return out


def kept_studies(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file name, content) of every study a run folder holds, in the order of their names.

    Studies of another schema version are skipped.
    """
    for path in sorted(run.path.glob(f"{PREFIX}-*.json")):
        content = run.read_json(path.name)
        if content.get("impact_version") == IMPACT_VERSION:
            yield path.name, content


def _free_name(run: Run, study: Study) -> str:
    stems = [Path(name).stem for name in study.call.get("predictions", ())]
    stems += study.call.get("encoders", ())
    if study.call["baseline"] is not None:
        stems += ["less", Path(study.call["baseline"]).stem]
    # A file's name may hold anything; this one is typed in a shell.
    base = re.sub(r"[^\w.-]+", "_", "-".join([PREFIX, *stems]))[:_LONGEST]
    names = itertools.chain([f"{base}.json"], (f"{base}-{n}.json" for n in itertools.count(2)))
    return next(name for name in names if _is_free(run, name, study))


def _is_free(run: Run, name: str, study: Study) -> bool:
    return not (run.path / name).exists() or run.read_json(name).get("call") == study.call
