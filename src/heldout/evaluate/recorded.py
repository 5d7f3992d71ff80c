"""Recorded files of a suite: one file for all benchmarks, or one each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from heldout.errors import InputError
from heldout.evaluate.opening import OpenedBenchmark
from heldout.evaluate.origins import AnswerOrigin, file_origin
from heldout.evaluate.settings import EvaluateSettings
from heldout.evaluate.suite import Suite
from heldout.model import (
    RecordedAnswers,
    RecordedFile,
    RecordedRow,
    read_answers,
    read_recorded_rows,
)

RecordedSuite = dict[str, list[tuple[OpenedBenchmark, RecordedAnswers, AnswerOrigin]]]
_PLAIN = str.maketrans("", "", "-_ .")


def recorded_files(settings: EvaluateSettings, suite: Suite) -> list[tuple[str | None, Path]]:
    """The recorded files, each with the benchmark that it was given for. Asks for nothing but the files, so
    that a mistyped name is found out before a benchmark is downloaded."""
    chosen = [suite.benchmark(name) for name in settings.benchmarks] or suite.benchmarks
    known = [one.name for one in chosen]
    found = [_named(text, known) for text in settings.recorded]
    for _, path in found:
        if not path.is_file():
            raise InputError(
                f"recorded {path}: does not exist or is a folder; expected a file of answers"
            )
    return found


def read_suite_answers(
    files: Sequence[tuple[str | None, Path]],
    settings: EvaluateSettings,
    benchmarks: Sequence[OpenedBenchmark],
) -> RecordedSuite:
    """By model: the benchmarks that its files have answers to."""
    found: RecordedSuite = defaultdict(list)
    renamed: set[str] = set()
    for name, path in files:
        chosen = [one for one in benchmarks if name is None or one.name == name]
        known = {item.id for one in chosen for item in one.benchmark}
        file = read_recorded_rows(path, settings.mapping, known)
        origin = file_origin(path)
        if settings.name is not None:
            renamed |= {row.model for row in file.rows if row.model}
            if len(renamed) > 1:
                raise InputError(
                    f"{path}: one name is given (--as {settings.name}), and the column 'model' names "
                    f"{len(renamed)}: {', '.join(sorted(renamed)[:3])}; leave --as out"
                )
            file = replace(file, rows=[replace(row, model=None) for row in file.rows])
        for opened, belongs in _shares(path, file, chosen):
            answers = read_answers(
                path, opened.benchmark, file=file, model=settings.name, belongs=belongs
            )
            for model, one in answers.items():
                if any(other.name == opened.name for other, _, _ in found[model]):
                    raise InputError(
                        f"{path}: there are answers of '{model}' to {opened.name} in an earlier file, too; "
                        f"several models need a column 'model', or their own run folders"
                    )
                found[model].append((opened, one, origin))
    return dict(found)


def _named(text: str, benchmarks: Sequence[str]) -> tuple[str | None, Path]:
    head, equals, tail = text.partition("=")
    known = {one.lower(): one for one in benchmarks}
    if equals and not Path(text).exists():
        if head.lower() not in known:
            raise InputError(
                f"recorded {text}: the suite has no benchmark '{head}'; it has {', '.join(known.values())}"
            )
        return known[head.lower()], Path(tail)
    return None, Path(text)


def _shares(
    path: Path, file: RecordedFile, benchmarks: Sequence[OpenedBenchmark]
) -> list[tuple[OpenedBenchmark, Callable[[RecordedRow], bool] | None]]:
    """Which rows of a file are about which benchmark: by its column, else by ids that only one has."""
    if len(benchmarks) == 1:
        return [(benchmarks[0], None)]
    rows = file.rows
    told = {row.benchmark for row in rows if row.benchmark}
    by_name = {one.name: _spellings(one) & {_plain(name) for name in told} for one in benchmarks}
    if any(by_name.values()):
        return [(one, _of(by_name[one.name])) for one in benchmarks if by_name[one.name]]
    owners: dict[str, list[str]] = defaultdict(list)
    for one in benchmarks:
        for item in one.benchmark:
            owners[item.id].append(one.name)
    mine = {row.id for row in rows if row.id is not None}
    shared = next((item for item in mine if len(owners.get(item, ())) > 1), None)
    if shared is not None:
        raise InputError(
            f"{path}: item '{shared}' is in {' and '.join(owners[shared][:2])}: name the benchmark in a "
            f"column 'benchmark', or give a file each: {owners[shared][0]}=FILE"
        )
    answered = [one for one in benchmarks if any(item.id in mine for item in one.benchmark)]
    if not answered:
        if not rows:
            raise InputError(
                f"{path}: there is no answer in it; expected rows with id and prediction"
            )
        theirs = ", ".join(sorted(mine)[:3]) or "none"
        ours = ", ".join(one.benchmark.examples[0].id for one in benchmarks[:3])
        raise InputError(
            f"{path}: no row is about an item of the suite. Its ids are like {theirs}; the suite's are "
            f"like {ours}. Name columns with --map-recorded id=COLUMN, benchmark=COLUMN"
        )
    shares = [{item.id for item in one.benchmark} for one in answered]
    shares[0] |= mine - set(owners)  # rows about no item of the suite are listed once, as unknown
    return [(one, _among(ids)) for one, ids in zip(answered, shares, strict=True)]


def _spellings(one: OpenedBenchmark) -> set[str]:
    """What a file may call the benchmark: its name in the suite, or the value that selects it."""
    selected = one.entry.source.rpartition("=")[2] if "=" in one.entry.source else one.name
    return {_plain(one.name), _plain(selected)}


def _plain(name: str | None) -> str:
    return (name or "").lower().translate(_PLAIN)


def _of(names: set[str]) -> Callable[[RecordedRow], bool]:
    return lambda row: _plain(row.benchmark) in names


def _among(ids: set[str]) -> Callable[[RecordedRow], bool]:
    return lambda row: row.id in ids
