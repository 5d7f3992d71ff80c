"""Predictions somebody already has: one row per item, graded or to be graded."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from heldout.benchmark.example import canonical_text
from heldout.benchmark.readers import Row, find_reader
from heldout.detect.impact.grade import is_correct
from heldout.errors import InputError
from heldout.store import Dropped

METRICS = ("accuracy", "retrieval", "loglik")
CUTS = (1, 5, 10)
_READERS = ("json", "jsonl", "delimited", "parquet")
# What each field is called in the wild; the first present wins.
_NAMES: dict[str, tuple[str, ...]] = {
    "id": ("benchmark_id", "id", "qid", "question_id", "index", "example_id", "item", "item_id"),
    "model": ("model", "model_name"),
    "correct": ("correct", "is_correct", "hit"),
    "score": ("score", "accuracy", "acc"),
    "rank": ("rank",),
    "loglik": ("loglik", "log_likelihood", "mean_logprob", "logprob", "sum_logprob"),
    "prediction": ("prediction", "pred", "response", "model_answer", "output"),
    "answer": ("answer", "gt_answer", "gold_answer", "target", "label"),
}
_METRIC_FIELDS = {
    "accuracy": ("correct", "score", "prediction"),
    "retrieval": ("rank",),
    "loglik": ("loglik",),
}
NO_PREDICTION, NOT_FINITE = "no prediction", "not a finite number"
_TRUE, _FALSE = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")


class Item(NamedTuple):
    """What grading needs to know of a benchmark item."""

    answer: str | None
    options: tuple[str, ...]


@dataclass
class Predictions:
    """Of one model: measures ("accuracy", "R@5", …) by item."""

    model: str
    metric: str
    measures: dict[str, dict[str, float]] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)


def read_predictions(
    path: Path,
    items: Mapping[str, Item],
    *,
    metric: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> list[Predictions]:
    """One Predictions per model named in the file, or one named after the file."""
    rows, unreadable = _rows(path)
    columns = _columns(path, rows, mapping or {})
    metric, column = _metric(path, columns, metric, rows)
    by_model: dict[str, dict[str, tuple[int, dict[str, Any]]]] = defaultdict(dict)
    for row in rows:
        model = canonical_text(row.values.get(columns.get("model", ""))) or path.stem
        identifier = canonical_text(row.values.get(columns["id"]))
        if identifier is None:
            raise InputError(f"{path.name} row {row.number}: the column '{columns['id']}' is empty")
        known = by_model[model].setdefault(identifier, (row.number, row.values))
        if known[0] != row.number:
            raise InputError(
                f"{path.name}: item '{identifier}' has a prediction in row {known[0]} and another in "
                f"row {row.number}; expected one per item"
                + ("" if "model" in columns else " (several models: add a column 'model')")
            )
    found = []
    for model, predicted in by_model.items():
        one = Predictions(model, metric, dropped=list(unreadable))
        for identifier, (number, values) in predicted.items():
            where = f"{path.name} row {number}"
            if identifier not in items:
                detail = f"{where}: the run's benchmark has no such item"
                one.dropped.append(Dropped("impact", identifier, "unknown item", detail))
                continue
            value = _value(values, columns, column, items[identifier], where)
            if value is None:
                cell = values.get(columns[column])
                detail = f"{where}: '{columns[column]}' is {cell!r:.40}"
                reason = NOT_FINITE if _not_finite(cell) else NO_PREDICTION
                one.dropped.append(Dropped("impact", identifier, reason, detail))
                continue
            for name, measured in _measures(metric, column, value, where).items():
                one.measures.setdefault(name, {})[identifier] = measured
        if not one.measures:
            raise InputError(_nobody(path, model, predicted, items))
        found.append(one)
    return found


def _rows(path: Path) -> tuple[list[Row], list[Dropped]]:
    if not path.is_file():
        raise InputError(f"{path} does not exist or is a folder; expected a file of predictions")
    reader = find_reader(path)
    if reader is None or reader.name not in _READERS:
        raise InputError(
            f"{path}: expected predictions as CSV, TSV, JSON, JSON Lines or Parquet, one row per item "
            f"(a spreadsheet: save it as CSV)"
        )
    rows: list[Row] = []
    dropped: list[Dropped] = []
    for row in reader.rows(path):
        if isinstance(row, Row):
            rows.append(row)
        else:
            dropped.append(Dropped("impact", row.id, row.reason, row.detail, row.scope))
    if not rows:
        raise InputError(f"{path} holds no row that can be read")
    return rows, dropped


def _columns(path: Path, rows: Sequence[Row], mapping: Mapping[str, str]) -> dict[str, str]:
    present = list(dict.fromkeys(column for row in rows[:200] for column in row.values))
    lowered = {column.lower(): column for column in reversed(present)}
    columns: dict[str, str] = {}
    for name, names in _NAMES.items():
        chosen = mapping.get(name) or next((lowered[n] for n in names if n in lowered), None)
        if chosen is not None:
            columns[name] = chosen
    for name, column in mapping.items():
        if name not in _NAMES:
            raise InputError(f"--map {name}={column}: the fields are {', '.join(_NAMES)}")
        if column not in present:
            raise InputError(
                f"--map {name}={column}: {path.name} has no column '{column}'. "
                f"It has: {', '.join(present)}"
            )
    if "id" not in columns:
        raise InputError(
            f"{path.name}: expected a column with the items' ids (id, qid, question_id, index …); it "
            f"has: {', '.join(present)}. Name it with --map id=COLUMN"
        )
    return columns


def _metric(
    path: Path, columns: Mapping[str, str], metric: str | None, rows: Sequence[Row]
) -> tuple[str, str]:
    """The metric and the field it is read from."""
    if metric is not None and metric not in METRICS:
        raise InputError(f"--metric {metric}: expected one of {', '.join(METRICS)}")
    for name in (metric,) if metric else METRICS:
        for column in _METRIC_FIELDS[name]:
            if column in columns:
                return name, column
    wanted = _METRIC_FIELDS[metric] if metric else tuple(_NAMES)[2:7]
    raise InputError(
        f"{path.name}: expected a column {' or '.join(wanted)}; it has: "
        f"{', '.join(dict.fromkeys(c for row in rows[:200] for c in row.values))}. "
        f"Name it with --map {wanted[0]}=COLUMN"
    )


def _value(
    values: Mapping[str, Any], columns: Mapping[str, str], column: str, item: Item, where: str
) -> float | None:
    """The number of one row; None where there is none."""
    cell = values.get(columns[column])
    if column == "prediction":
        answer = item.answer
        if answer is None:
            answer = canonical_text(values.get(columns.get("answer", "")))
        if cell is None or answer is None or (isinstance(cell, float) and _not_finite(cell)):
            return None
        return float(is_correct(str(cell), answer, item.options))
    if isinstance(cell, bool):
        return float(cell)
    text = str(cell).strip().lower() if cell is not None else ""
    if column == "correct":
        if text in _TRUE or text in _FALSE:
            return float(text in _TRUE)
        if text in ("", "none", "null") or _not_finite(text):
            return None
        raise InputError(f"{where}: '{columns[column]}' is {cell!r:.40}; expected true or false")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        raise InputError(
            f"{where}: '{columns[column]}' is {cell!r:.40}; expected a number"
        ) from None
    return number if math.isfinite(number) else None


def _not_finite(cell: Any) -> bool:
    """NaN and the infinities, as numbers or as a text file spells them: something went wrong there."""
    try:
        return not math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False


def _measures(metric: str, column: str, value: float, where: str) -> dict[str, float]:
    if metric != "retrieval":
        name = {"score": "score", "loglik": "log-likelihood"}.get(column, "accuracy")
        return {name: value}
    if value < 1 or value != int(value):
        raise InputError(f"{where}: rank {value:g}; ranks count 1, 2, 3 … with 1 the best")
    return {f"R@{cut}": float(value <= cut) for cut in CUTS}


def _nobody(path: Path, model: str, predicted: Mapping[str, Any], items: Mapping[str, Item]) -> str:
    theirs, ours = list(predicted)[:3], list(items)[:3]
    return (
        f"{path.name}: no row of {model} has a prediction for an item of the run's benchmark. Its "
        f"ids are like {', '.join(theirs)}; the benchmark's are like {', '.join(ours)}"
    )
