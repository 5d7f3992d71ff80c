"""Rows of a score file, one at a time, each held to what a log-probability is."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.benchmark.example import canonical_text
from heldout.benchmark.readers import Row
from heldout.errors import InputError
from heldout.model.prediction_files import ALIASES, as_truth, columns_of, prediction_rows
from heldout.store import Dropped

#: what is taken from a row; what columns may be called says ALIASES
FIELDS = ("id", "model", "tokens", "logprobs", "mu", "sigma", "sum_logprob", "n_tokens", "span_ok",
          "revision", "backend", "dtype", "template")  # fmt: skip
_LISTS = ("tokens", "logprobs", "mu", "sigma")
_HEAD = 200  # rows that are looked at for the names of columns
_MOST_TOKENS = 100_000  # a longer "answer" is a document, or an attack on memory
_AGREE = 1e-3
_ABOVE_ZERO = 1e-6  # rounding of a probability of 1; more is not a log-probability


def read_rows(
    source: Path, mapping: Mapping[str, str] | None = None
) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """(row number, fields by their names here, the file's own columns). What cannot be read is an error:
    a score that is missing silently changes every statistic."""
    rows = prediction_rows(source, frozenset((mapping or {}).values()))
    head = list(itertools.islice(rows, _HEAD))
    columns = columns_of((row for row in head if isinstance(row, Row)), mapping)
    for row in itertools.chain(head, rows):
        if isinstance(row, Dropped):
            raise InputError(f"{source}: {row.id}: {row.reason} ({row.detail})")
        if row.values.keys() - columns.present_set:
            columns = columns_of([Row(0, dict.fromkeys(columns.present)), row], mapping)
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
        raise InputError(f"{where}: no model is named; add a column 'model', or give --model NAME")
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
        "benchmark_id": identifier, "model": str(named), "tokens": tokens, **lists,
        "sum_logprob": total, "n_tokens": length, "span_ok": _truth(raw.get("span_ok"), where),
    }  # fmt: skip


def _same_revision(raw: Mapping[str, Any], where: str, fingerprint: str) -> None:
    given = str(raw.get("revision") or "")
    if given and fingerprint and not fingerprint.startswith(given):
        raise InputError(
            f"{where}: scored on revision {given[:12]}, but this benchmark is revision "
            f"{fingerprint[:12]}; score the benchmark you audit"
        )


def _numbers(value: Any, name: str, where: str) -> list[float]:
    return [_number(one, name, where) for one in _listed(value, name, where)]


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
