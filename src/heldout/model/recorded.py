"""Scores made elsewhere: a file that prediction_files reads → the run's ``scores`` table.

Only ``benchmark_id`` (or ``id``) and one of ``logprobs`` and ``sum_logprob`` are needed; the detectors
that need more say so. Nothing is repaired: a score that does not belong to this benchmark, or is not a
log-probability, is an error that names its row.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heldout.benchmark import FileRow, canonical_text
from heldout.errors import InputError
from heldout.model.prediction_files import ALIASES, as_truth, columns_of, prediction_rows
from heldout.model.scoring import forget_detections, owner
from heldout.store import Dropped, Run, dropped_table, make_table

# Rows of a score file, one at a time, each held to what a log-probability is.


#: fields of a row; ALIASES has the names of columns
FIELDS = (
    "id",
    "model",
    "tokens",
    "logprobs",
    "mu",
    "sigma",
    "sum_logprob",
    "n_tokens",
    "span_ok",
    "revision",
    "backend",
    "dtype",
    "template",
)
_LISTS = ("tokens", "logprobs", "mu", "sigma")
_HEAD = 200  # rows that are looked at for the names of columns
_MOST_TOKENS = 100_000  # a longer "answer" is a document, or hostile
_AGREE = 1e-3
_ABOVE_ZERO = 1e-6  # rounding error of log 1; a larger value is not a log-probability


def read_rows(
    source: Path, mapping: Mapping[str, str] | None = None
) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """(row number, fields by their names here, the file's own columns). What cannot be read is an error:
    a score that is missing silently changes every statistic."""
    rows = prediction_rows(source, frozenset((mapping or {}).values()))
    head = list(itertools.islice(rows, _HEAD))
    columns = columns_of((row for row in head if isinstance(row, FileRow)), mapping)
    for row in itertools.chain(head, rows):
        if isinstance(row, Dropped):
            raise InputError(f"{source}: {row.id}: {row.reason} ({row.detail})")
        if row.values.keys() - columns.present_set:
            columns = columns_of([FileRow(0, dict.fromkeys(columns.present)), row], mapping)
        cells = {name: columns.cell(row.values, name) for name in FIELDS}
        yield row.number, cells, list(row.values)


def check_row(
    raw: Mapping[str, Any],
    where: str,
    *,
    model: str | None,
    fingerprint: str,
    present: Sequence[str] = (),
) -> dict[str, Any]:
    """The row as the ``scores`` table has it. ``present``: the file's own columns, for messages."""
    identifier = canonical_text(raw.get("id"))
    if identifier is None:
        names = ALIASES["id"]
        raise InputError(
            f"{where}: no item id; expected a column {names[0]} (or {', '.join(names[1:])})"
        )
    named = raw.get("model") or model
    if not named:
        raise InputError(
            f"{where}: no model is named; add a column 'model', or give the setting name"
        )
    _same_revision(raw, where, fingerprint)
    lists = {name: _numbers(raw.get(name), name, where) for name in _LISTS[1:]}
    tokens = [str(token) for token in _listed(raw.get("tokens"), "tokens", where)]
    logprobs = lists["logprobs"]
    total, count = raw.get("sum_logprob"), raw.get("n_tokens")
    if not logprobs and total in (None, ""):
        raise InputError(
            f"{where}: neither 'logprobs' nor 'sum_logprob' is there (found: "
            f"{', '.join(map(str, present)) or 'nothing'}); a model without log-probabilities cannot be "
            f"scored"
        )
    for name, values in (("tokens", tokens), ("mu", lists["mu"]), ("sigma", lists["sigma"])):
        if values and len(values) != len(logprobs):
            raise InputError(
                f"{where}: {len(values)} {name} for {len(logprobs)} logprobs; expected one per token"
            )
    if any(value > _ABOVE_ZERO for value in logprobs):
        raise InputError(
            f"{where}: a logprob above 0 ({max(logprobs):g}); expected log-probabilities, "
            f"not losses or probabilities"
        )
    if any(value < 0 for value in lists["sigma"]):
        raise InputError(f"{where}: a negative sigma; expected standard deviations of log p")
    total = math.fsum(logprobs) if total in (None, "") else _number(total, "sum_logprob", where)
    if total > _ABOVE_ZERO:
        raise InputError(
            f"{where}: sum_logprob is {total:g}, above 0; expected log-probabilities, not losses or "
            f"probabilities"
        )
    if logprobs and abs(total - math.fsum(logprobs)) > _AGREE * max(1.0, abs(total)):
        raise InputError(
            f"{where}: sum_logprob is {total:g} but the logprobs add up to {math.fsum(logprobs):g}; "
            f"is the span of one of them wider than the answer?"
        )
    length = len(logprobs) if count in (None, "") else int(_number(count, "n_tokens", where))
    if length < 1 or (logprobs and length != len(logprobs)):
        raise InputError(
            f"{where}: n_tokens is {length} with {len(logprobs)} logprobs; expected the number of "
            f"tokens of the answer, at least 1"
        )
    return {
        "benchmark_id": identifier,
        "model": str(named),
        "tokens": tokens,
        **lists,
        "sum_logprob": total,
        "n_tokens": length,
        "span_ok": _truth(raw.get("span_ok"), where),
    }


def _same_revision(raw: Mapping[str, Any], where: str, fingerprint: str) -> None:
    scored_on = str(raw.get("revision") or "")
    if scored_on and fingerprint and not fingerprint.startswith(scored_on):
        raise InputError(
            f"{where}: scored on revision {scored_on[:12]}, but this benchmark is revision "
            f"{fingerprint[:12]}; score the benchmark you audit"
        )


def _numbers(value: Any, name: str, where: str) -> list[float]:
    return [_number(entry, name, where) for entry in _listed(value, name, where)]


def _listed(value: Any, name: str, where: str) -> list[Any]:
    if value is None or value == "":
        return []
    if isinstance(value, str):  # a list in a CSV cell
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{where}: {name} is not a JSON list: {value[:60]!r}") from error
    if not isinstance(value, (list, tuple)):
        raise InputError(
            f"{where}: {name} is {type(value).__name__}; expected a list, one per token"
        )
    if len(value) > _MOST_TOKENS:
        raise InputError(f"{where}: {len(value):,} {name}; an answer has at most {_MOST_TOKENS:,}")
    return list(value)


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {name} holds {str(value)[:40]!r}; expected a number") from error
    if number == -math.inf:
        raise InputError(
            f"{where}: {name} holds minus infinity, a token of probability 0; expected a finite number. Score "
            f"this item again in float32, or leave it out (the setting allow_missing)"
        )
    if not math.isfinite(number):
        raise InputError(
            f"{where}: {name} holds {number}; expected a finite number. NaN usually means that the "
            f"model overflowed in half precision: score this item again in float32"
        )
    return number


def _truth(value: Any, where: str) -> bool:
    if value is None or value == "":
        return True
    truth = as_truth(value)
    if truth is None:
        raise InputError(f"{where}: span_ok is {str(value)[:40]!r}; expected true or false")
    return truth


STAGE = "score"
_SHOWN = 3
BACKEND = "recorded"
INSTRUMENT = ("backend", "dtype", "template")


@dataclass(frozen=True)
class RecordedScores:
    """Checked scores in the benchmark's order, and the items that have none."""

    models: tuple[str, ...]
    rows: list[dict[str, Any]]
    source: str
    dropped: list[Dropped] = field(default_factory=list)
    #: by model what its scores were made with, as far as the file says: backend, dtype, revision, …
    instruments: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.models:
            self.instruments.setdefault(name, {"backend": BACKEND})

    @property
    def table(self) -> pa.Table:
        return make_table("scores", self.rows)


def read_recorded(
    path: str | Path,
    items: Sequence[str],
    *,
    fingerprint: str = "",
    model: str | None = None,
    allow_missing: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> RecordedScores:
    """``items`` are the benchmark's ids in released order, ``fingerprint`` its revision.

    ``model`` names the model of a file that has no such column; else it is called after the file. With
    ``allow_missing`` items without a score are listed as dropped, otherwise they are an error.
    ``mapping`` names columns, by field.
    """
    source = Path(path)
    order = {identifier: place for place, identifier in enumerate(items)}
    seen: dict[tuple[str, str], int] = {}
    rows: list[dict[str, Any]] = []
    unknown: list[str] = []
    instruments: dict[str, dict[str, str]] = {}
    for number, raw, present in read_rows(source, mapping):
        default = model or _after(source, present, mapping)
        if not model and instruments.keys() - {source.stem}:
            default = None  # other rows name one
        row = check_row(
            raw, f"{source}, row {number}", model=default, fingerprint=fingerprint, present=present
        )
        key = (row["model"], row["benchmark_id"])
        _same_instrument(raw, instruments.setdefault(row["model"], {}), f"{source}, row {number}")
        if key in seen:
            raise InputError(
                f"{source}, row {number}: the item '{key[1]}' was already scored for {key[0]} in row "
                f"{seen[key]}; one score per item and model is expected, remove the other"
            )
        seen[key] = number
        if row["benchmark_id"] in order:
            rows.append(row)
        else:
            unknown.append(row["benchmark_id"])
    if unknown:
        raise InputError(
            f"{source}: {len(unknown):,} scored ids are not in this benchmark, {_named(unknown)}. "
            f"Its ids look like {_named(list(items))}: is this another split or revision?"
        )
    if not rows:
        raise InputError(f"{source} holds no scores")
    models = tuple(dict.fromkeys(row["model"] for row in rows))
    dropped = _missing(source, items, models, seen, allow_missing)
    rows.sort(key=lambda row: (models.index(row["model"]), order[row["benchmark_id"]]))
    named = {name: {**record, "backend": _backend(record)} for name, record in instruments.items()}
    return RecordedScores(models, rows, str(source), dropped, named)


def save_scores(
    run: Run, recorded: RecordedScores, *, identity: Mapping[str, Any] | None = None
) -> None:
    """Put the scores into the run, in place of earlier ones of the same models. Others are kept."""
    table = recorded.table
    path = run.table_path("scores")
    if path.exists():
        earlier = run.read_table("scores")
        ours = pc.is_in(earlier["model"], value_set=pa.array(recorded.models, pa.string()))
        kept = earlier.filter(pc.fill_null(pc.invert(ours), True))
        table = pa.concat_tables([make_table("scores", kept.to_pylist()), table])
    run.write_table("scores", table)
    path = run.table_path("dropped")
    if recorded.dropped or path.exists():
        new = dropped_table(recorded.dropped)
        if path.exists():
            models = {*recorded.models, *run.manifest().get("models", {})}
            others = [
                row
                for row in run.read_table("dropped").to_pylist()
                if row["stage"] != STAGE or owner(row["id"], models) not in recorded.models
            ]
            new = pa.concat_tables([make_table("dropped", others), new])
        run.write_table("dropped", new)
    record = {"source": recorded.source, **(identity or {})}
    run.update(
        "models", {name: {**recorded.instruments[name], **record} for name in recorded.models}
    )
    forget_detections(run)


def _after(source: Path, present: Sequence[str], mapping: Mapping[str, str] | None) -> str | None:
    """The model's name if no column holds one; an empty cell in such a column is an error, not a name."""
    if "model" in (mapping or {}) or any(str(text).lower() in ALIASES["model"] for text in present):
        return None
    return source.stem


def _same_instrument(raw: Mapping[str, Any], known: dict[str, str], where: str) -> None:
    """Columns that say how a model was scored must not change within a file."""
    for name in INSTRUMENT:
        value = raw.get(name)
        if value in (None, ""):
            continue
        if known.setdefault(name, str(value)) != str(value):
            raise InputError(
                f"{where}: {name} is '{value}', but '{known[name]}' above for the same model; scores of "
                f"two instruments are never mixed, give them two model names"
            )


def _backend(instrument: Mapping[str, str]) -> str:
    return f"{BACKEND}: {instrument['backend']}" if "backend" in instrument else BACKEND


def _missing(
    source: Path,
    items: Sequence[str],
    models: Sequence[str],
    seen: Mapping[tuple[str, str], int],
    allow: bool,
) -> list[Dropped]:
    dropped = []
    for model in models:
        absent = [identifier for identifier in items if (model, identifier) not in seen]
        if absent and not allow:
            raise InputError(
                f"{source}: {len(absent):,} of {len(items):,} items have no score for {model}, "
                f"{_named(absent)}. Score them too, or allow missing items: they are then listed as "
                f"dropped, and no finding covers them"
            )
        dropped += [
            Dropped(STAGE, f"{model}/{identifier}", "no recorded score", str(source))
            for identifier in absent
        ]
    return dropped


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(f"'{identifier}'" for identifier in ids[:_SHOWN])
    return shown + (" …" if len(ids) > _SHOWN else "")
