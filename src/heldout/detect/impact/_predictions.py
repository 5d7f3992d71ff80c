"""Recorded predictions: one row per item, graded by the rules of `heldout ask`, or with a number."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, Example, FileRow, canonical_text, read_whole
from heldout.errors import InputError
from heldout.model import (
    Columns,
    OwnGrades,
    RecordedAnswers,
    ReplyOutcome,
    Unread,
    as_truth,
    compare_grades,
    graded,
    open_predictions,
    read_answers,
    unread_of,
)
from heldout.store import Dropped

METRICS = ("accuracy", "retrieval", "loglik")
CUTS = (1, 5, 10)
#: what each metric is read from; a column that the user named comes before the others
_METRIC_FIELDS = {
    "accuracy": ("prediction", "correct", "score"),
    "retrieval": ("rank",),
    "loglik": ("loglik",),
}
NO_PREDICTION, NOT_FINITE = "no prediction", "not a finite number"
_UNRECORDED = "no recorded answer"
_ORIGINAL = "original"


@dataclass
class Predictions:
    """Of one model: measures ("accuracy", "R@5", …) by item. ``read_from``: the column they are of."""

    model: str
    metric: str
    measures: dict[str, dict[str, float]] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    read_from: str = ""
    own_grades: OwnGrades | None = None
    empty: list[str] = field(default_factory=list)
    unread: Unread = field(default_factory=Unread)
    remarks: list[str] = field(default_factory=list)  # of the encoder that was evaluated


def items_as_benchmark(name: str, table: Sequence[Mapping[str, Any]]) -> Benchmark:
    """A run's items as a benchmark for grading, without the pictures."""
    return Benchmark(
        name,
        tuple(
            # An item without a question was asked about its picture, which is not needed to grade it.
            Example(
                row["benchmark_id"],
                (),
                row["question"] or "?",
                tuple(row["options"] or ()),
                row["answer"],
                _place(row["answer"], tuple(row["options"] or ())),
                row["cluster"],
                json.loads(row.get("metadata") or "{}"),
            )
            for row in table
        ),
    )


def read_predictions(
    path: Path,
    benchmark: Benchmark,
    *,
    metric: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> list[Predictions]:
    """One Predictions per model named in the file, or one named after the file.

    Predictions are graded here, strictly; a grade that the file brings is compared with ours. It counts
    in place of ours where ``mapping`` names its column, or where nothing can be graded.
    """
    known = {example.id for example in benchmark}
    rows, columns, unreadable = open_predictions(path, mapping, known)
    if not rows:
        raise InputError(f"{path} holds no row that can be read")
    if columns.of("id") is None and columns.of("position") is None:
        raise InputError(
            f"{path.name}: expected a column with the items' ids (id, qid, question_id, index …); it "
            f"has: {', '.join(columns.present)}. Name it with the setting map: id=COLUMN"
        )
    gradable = _gradable(columns, benchmark)
    metric, source = _metric(path, columns, metric, gradable)
    answers: dict[str, RecordedAnswers] = {}
    if metric == "accuracy" and gradable:
        answers = _answers(path, benchmark, rows, columns, mapping, required=source == "prediction")
    if source == "prediction":
        predictions = [
            _graded(name, path, columns, recorded_answers)
            for name, recorded_answers in answers.items()
        ]
        missing = [prediction.model for prediction in predictions if not prediction.measures]
        if missing:
            raise InputError(_nobody(path, missing[0], rows, columns, known))
        return predictions
    predictions = _numbers(path, rows, columns, metric, source, known, unreadable)
    for entry in predictions:
        entry.own_grades, entry.empty = _beside(entry, answers.get(entry.model))
    return predictions


def _gradable(columns: Columns, benchmark: Benchmark) -> bool:
    if columns.of("prediction") is None:
        return False
    return columns.of("answer") is not None or any(example.answer for example in benchmark)


def _metric(path: Path, columns: Columns, metric: str | None, gradable: bool) -> tuple[str, str]:
    """The metric and the field it is read from: one that the user named, else the first there is."""
    if metric is not None and metric not in METRICS:
        raise InputError(f"metric {metric}: expected one of {', '.join(METRICS)}")
    wanted = [
        (name, entry)
        for name in ((metric,) if metric else METRICS)
        for entry in _METRIC_FIELDS[name]
    ]
    present = [(name, field) for name, field in wanted if columns.of(field) is not None]
    named = [pair for pair in present if columns.named(pair[1])]
    if ("accuracy", "prediction") in named and not gradable:
        raise InputError(
            f"{path.name}: '{columns.of('prediction')}' cannot be graded: neither the benchmark nor the "
            f"file says what is right. Name the benchmark, or a column with the setting map: answer=COLUMN"
        )
    usable = named or [pair for pair in present if gradable or pair[1] != "prediction"]
    if usable:
        return usable[0]
    fields = [field for _, field in wanted]
    raise InputError(
        f"{path.name}: expected a column {' or '.join(fields)}; it has: {', '.join(columns.present)}. "
        f"Name it with the setting map: {fields[0]}=COLUMN"
        + (" (its predictions cannot be graded: nothing says what is right)" if present else "")
    )


def _answers(
    path: Path,
    benchmark: Benchmark,
    rows: Sequence[FileRow],
    columns: Columns,
    mapping: Mapping[str, str] | None,
    *,
    required: bool,
) -> dict[str, RecordedAnswers]:
    """As `heldout ask --recorded` reads them. Where the benchmark has no answers, those of the file."""
    try:
        asked = _with_answers(benchmark, rows, columns)
        return read_answers(path, asked, mapping=mapping, setting="map")
    except InputError:
        if required:
            raise
        return {}  # the file's own grades are used; its predictions are not needed


def _with_answers(benchmark: Benchmark, rows: Sequence[FileRow], columns: Columns) -> Benchmark:
    if columns.of("answer") is None or any(example.answer for example in benchmark):
        return benchmark
    record = {
        canonical_text(columns.cell(row.values, "id")): columns.cell(row.values, "answer")
        for row in rows
    }
    return replace(
        benchmark,
        examples=tuple(
            replace(example, answer=gold, answer_index=_place(gold, example.options))
            for example in benchmark
            for gold in [canonical_text(record.get(example.id))]
        ),
    )


def _graded(model: str, path: Path, columns: Columns, answers: RecordedAnswers) -> Predictions:
    """Accuracy over the replies to each item as released; several draws of one item are averaged."""
    predictions = Predictions(model, "accuracy", read_from=str(columns.of("prediction")))
    right: dict[str, list[bool]] = defaultdict(list)
    own = []
    readings = []
    others: dict[str, str] = {}
    for question, reply in answers.pairs:
        if question.variant != _ORIGINAL:
            others.setdefault(question.benchmark_id, question.variant)
            continue
        outcome = graded(question, reply).outcome
        readings.append(
            ReplyOutcome(question.benchmark_id, reply.text, outcome, len(question.options))
        )
        hit = outcome == "right"
        right[question.benchmark_id].append(hit)
        if question.id in answers.own_grades:
            own.append((question.benchmark_id, hit, answers.own_grades[question.id]))
    if right:
        predictions.measures["accuracy"] = {
            item: sum(hits) / len(hits) for item, hits in right.items()
        }
    predictions.dropped = [
        replace(
            drop,
            stage="impact",
            reason=NO_PREDICTION if drop.reason == _UNRECORDED else drop.reason,
        )
        for drop in answers.dropped
        if drop.id not in right
    ]
    messages = {drop.id for drop in predictions.dropped}
    predictions.dropped += [
        Dropped("impact", item, NO_PREDICTION, f"{path.name}: only as {variant}, not as released")
        for item, variant in others.items()
        if item not in right and item not in messages
    ]
    predictions.own_grades = compare_grades(answers.graded_by, own) if answers.graded_by else None
    predictions.empty = [
        identifier for identifier in dict.fromkeys(answers.empty) if identifier in right
    ]
    predictions.unread = unread_of(readings)
    return predictions


def _beside(
    taken: Predictions, answers: RecordedAnswers | None
) -> tuple[OwnGrades | None, list[str]]:
    """Our grades beside the file's, where the file's were asked for."""
    if answers is None or taken.metric != "accuracy":
        return None, []
    theirs = next(iter(taken.measures.values()))
    pairs = [
        (
            question.benchmark_id,
            graded(question, reply).outcome == "right",
            theirs[question.benchmark_id],
        )
        for question, reply in answers.pairs
        if question.variant == _ORIGINAL and question.benchmark_id in theirs
    ]
    return compare_grades(taken.read_from, pairs), list(dict.fromkeys(answers.empty))


def _numbers(
    path: Path,
    rows: Sequence[FileRow],
    columns: Columns,
    metric: str,
    source: str,
    known: set[str],
    unreadable: Sequence[Dropped],
) -> list[Predictions]:
    """Measures that the file holds: its grades, scores, ranks or log-likelihoods."""
    column = columns.of(source)
    by_model: dict[str, dict[str, FileRow]] = defaultdict(dict)
    for row in rows:
        model = canonical_text(columns.cell(row.values, "model")) or path.stem
        identifier = canonical_text(columns.cell(row.values, "id"))
        if identifier is None:
            raise InputError(
                f"{path.name} row {row.number}: the column '{columns.of('id')}' is empty"
            )
        first = by_model[model].setdefault(identifier, row)
        if first is not row:
            raise InputError(
                f"{path.name}: item '{identifier}' has a prediction in row {first.number} and another in "
                f"row {row.number}; expected one per item"
                + ("" if columns.of("model") else " (several models: add a column 'model')")
            )
    predictions = []
    for model, predicted in by_model.items():
        record = Predictions(
            model, metric, dropped=[replace(d, stage="impact") for d in unreadable]
        )
        record.read_from = str(column)
        for identifier, row in predicted.items():
            where = f"{path.name} row {row.number}"
            if identifier not in known:
                detail = f"{where}: the benchmark has no such item"
                record.dropped.append(Dropped("impact", identifier, "unknown item", detail))
                continue
            cell = columns.cell(row.values, source)
            value = _value(cell, source, str(column), where)
            if value is None:
                detail = f"{where}: '{column}' is {cell!r:.40}"
                reason = NOT_FINITE if _not_finite(cell) else NO_PREDICTION
                record.dropped.append(Dropped("impact", identifier, reason, detail))
                continue
            for name, measured in _measures(metric, source, value, where).items():
                record.measures.setdefault(name, {})[identifier] = measured
        if not record.measures:
            raise InputError(_nobody(path, model, rows, columns, known))
        predictions.append(record)
    return predictions


def _value(cell: Any, source: str, column: str, where: str) -> float | None:
    """The number of one row; None where there is none."""
    truth = as_truth(cell)
    if source == "correct" or isinstance(cell, bool):
        text = str(cell).strip().lower()
        if truth is not None:
            return float(truth)
        if cell is None or text in ("", "none", "null") or _not_finite(text):
            return None
        raise InputError(f"{where}: '{column}' is {cell!r:.40}; expected true or false")
    if cell is None or not str(cell).strip():
        return None
    try:
        number = float(str(cell).strip())
    except ValueError:
        raise InputError(f"{where}: '{column}' is {cell!r:.40}; expected a number") from None
    return number if math.isfinite(number) else None


def _not_finite(cell: Any) -> bool:
    """Whether a value is NaN or infinite, as a number or as text."""
    try:
        return not math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False


def _measures(metric: str, source: str, value: float, where: str) -> dict[str, float]:
    if metric != "retrieval":
        name = {"score": "score", "loglik": "log-likelihood"}.get(source, "accuracy")
        return {name: value}
    if value < 1 or value != int(value):
        raise InputError(f"{where}: rank {value:g}; ranks count 1, 2, 3 … with 1 the best")
    return {f"R@{cut}": float(value <= cut) for cut in CUTS}


def _place(answer: str | None, options: Sequence[str]) -> int | None:
    """Which option is right: by its words, else by its letter."""
    if not answer or not options:
        return None
    if answer in options:
        return options.index(answer)
    reading = read_whole(answer, options)
    return reading.place if reading is not None else None


def _nobody(
    path: Path, model: str, rows: Sequence[FileRow], columns: Columns, known: set[str]
) -> str:
    theirs = [str(columns.cell(row.values, "id")) for row in rows[:3]]
    return (
        f"{path.name}: no row of {model} has a prediction for an item of the benchmark. Its "
        f"ids are like {', '.join(theirs)}; the benchmark's are like {', '.join(sorted(known)[:3])}"
    )
