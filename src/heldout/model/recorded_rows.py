"""Rows of a score file, one at a time, each held to what a log-probability is."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.errors import InputError

_ID = ("benchmark_id", "id", "example_id", "question_id")
_LISTS = ("tokens", "logprobs", "mu", "sigma")
_REVISION = ("fingerprint", "revision")
_MOST_TOKENS = 100_000  # a longer "answer" is a document, or an attack on memory
_LONGEST_LINE = 64 * 2**20
_AGREE = 1e-3
_ABOVE_ZERO = 1e-6  # rounding of a probability of 1; more is not a log-probability


def read_rows(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number as an editor counts it, fields)."""
    if not source.is_file():
        raise InputError(f"{source} does not exist or is not a file; expected recorded scores")
    kind = source.suffix.lower()
    if kind == ".parquet":
        yield from _parquet(source)
    elif kind in (".jsonl", ".ndjson"):
        yield from _jsonl(source)
    elif kind in (".csv", ".tsv"):
        yield from _delimited(source, "\t" if kind == ".tsv" else ",")
    else:
        raise InputError(
            f"{source}: recorded scores are read from .parquet, .jsonl, .csv or .tsv, not '{kind}'"
        )


def check_row(
    raw: Mapping[str, Any], where: str, *, model: str | None, fingerprint: str
) -> dict[str, Any]:
    """The row as the ``scores`` table has it."""
    identifier = next((raw[name] for name in _ID if raw.get(name) not in (None, "")), None)
    if identifier is None:
        raise InputError(
            f"{where}: no item id; expected a column {_ID[0]} (or {', '.join(_ID[1:])})"
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
            f"{', '.join(map(str, raw)) or 'nothing'}); a model without log-probabilities cannot be scored"
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
        "benchmark_id": str(identifier), "model": str(named), "tokens": tokens, **lists,
        "sum_logprob": total, "n_tokens": length, "span_ok": _truth(raw.get("span_ok"), where),
    }  # fmt: skip


def _same_revision(raw: Mapping[str, Any], where: str, fingerprint: str) -> None:
    given = next((str(raw[name]) for name in _REVISION if raw.get(name)), "")
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
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "1", "false", "0"):
        return str(value).lower() in ("true", "1")
    raise InputError(f"{where}: span_ok is {str(value)[:40]!r}; expected true or false")


def _parquet(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        number = 0
        for batch in pq.ParquetFile(source).iter_batches(4096):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} is not a readable Parquet file: {error}") from error


def _jsonl(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with source.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise InputError(f"{source}, line {number}: longer than 64 MB; expected one score")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{source}, line {number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"{source}, line {number}: expected a JSON object per line")
            yield number, row


def _delimited(source: Path, comma: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with source.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        try:
            reader = csv.DictReader(file, delimiter=comma)
            for row in reader:
                if None in row:
                    raise InputError(f"{source}, line {reader.line_num}: more cells than columns")
                yield reader.line_num, row
        except csv.Error as error:
            raise InputError(f"{source}: not a readable CSV file: {error}") from error
