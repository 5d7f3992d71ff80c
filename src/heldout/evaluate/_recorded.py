"""Recorded files of a suite: one file for all benchmarks, or one each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from heldout.errors import InputError
from heldout.evaluate.opening import OpenedBenchmark
from heldout.evaluate.result import FOLDER, SECTION
from heldout.evaluate.settings import EvaluateSettings
from heldout.evaluate.suite import Suite
from heldout.model import (
    RecordedAnswers,
    RecordedFile,
    RecordedRow,
    file_sha256,
    read_answers,
    read_recorded_rows,
    stage_folder,
)
from heldout.store import Run, is_path, without_credentials

# Where the answers of a model come from: a run folder never mixes or replaces two that share a name.


_KEY = "origins"
_MOVED = ", then at "


class AnswerOrigin(NamedTuple):
    """``named``: for people. ``identity``: digest of a file, or the name under which a model is served:
    a server that moved continues with its earlier replies."""

    kind: str
    named: str
    identity: str


def file_origin(path: Path) -> AnswerOrigin:
    digest = file_sha256(path)
    return AnswerOrigin("recorded", f"{path.name} (sha256 {digest[:12]})", digest)


def server_origin(url: str, model: str) -> AnswerOrigin:
    named = f"'{model}' at {without_credentials(url).rstrip('/')}"
    return AnswerOrigin("endpoint", named, model)


def check_origins(run: Run, origins: Mapping[str, Mapping[str, AnswerOrigin]]) -> None:
    """By model and benchmark; call before anything is asked or written."""
    known = run.manifest().get(SECTION, {}).get(_KEY, {})
    for model, parts in origins.items():
        for benchmark, record in known.get(model, {}).items():
            earlier = AnswerOrigin(*record)
            others = [
                part
                for name, part in parts.items()
                # Files may answer a benchmark each; a server answers all of them.
                if not _same(part, earlier)
                and (name == benchmark or {part.kind, earlier.kind} != {"recorded"})
            ]
            if others and _holds(Run(run.path / FOLDER / benchmark), model):
                raise InputError(
                    f"{run.path} holds answers of '{model}' to {benchmark} from {earlier.named}; these "
                    f"are from {others[0].named}. Give this model another name with the "
                    f"setting name, or use another run folder (the setting out)"
                )


def keep_origin(run: Run, model: str, benchmark: str, origin: AnswerOrigin) -> None:
    known = run.manifest()[SECTION].get(_KEY, {})
    mine = known.get(model, {})
    if benchmark in mine and _holds(Run(run.path / FOLDER / benchmark), model):
        earlier, address = AnswerOrigin(*mine[benchmark]), origin.named.rpartition(" at ")[2]
        named = (
            earlier.named
            if earlier.named.endswith(address)
            else f"{earlier.named}{_MOVED}{address}"
        )
        origin = origin._replace(named=named)
    run.update(SECTION, {_KEY: {**known, model: {**mine, benchmark: list(origin)}}})


def moved_remarks(run: Run) -> Iterator[str]:
    """Models that were asked at several addresses."""
    for model, parts in run.manifest()[SECTION].get(_KEY, {}).items():
        for named in sorted({AnswerOrigin(*record).named for record in parts.values()}):
            if _MOVED in named:
                yield f"{model} was asked of {named}: the name is the same, the weights are not compared"


def _same(origin: AnswerOrigin, other: AnswerOrigin) -> bool:
    return origin.kind == other.kind and (
        origin.identity == other.identity or origin.named == other.named
    )


def _holds(part: Run, model: str) -> bool:
    """Whether there are answers: an attempt that failed before its first answer does not count."""
    journal = part.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl"
    if journal.exists() and journal.stat().st_size:
        return True
    if not part.table_path("answers").exists():
        return False
    return bool(pc.any(pc.equal(part.read_table("answers").column("model"), model)).as_py())


RecordedSuite = dict[str, list[tuple[OpenedBenchmark, RecordedAnswers, AnswerOrigin]]]
_PLAIN = str.maketrans("", "", "-_ .")


def recorded_files(settings: EvaluateSettings, suite: Suite) -> list[tuple[str | None, Path]]:
    """The recorded files, each with the benchmark that it was given for. Only the files are looked at, so that
    a mistyped name is reported before a benchmark is downloaded."""
    chosen = [suite.benchmark(name) for name in settings.benchmarks] or suite.benchmarks
    known = [suite_benchmark.name for suite_benchmark in chosen]
    files = [_named(text, known) for text in settings.recorded]
    for _, path in files:
        if not path.is_file():
            raise InputError(
                f"recorded {path}: does not exist or is a folder; expected a file of answers"
            )
    return files


def read_suite_answers(
    files: Sequence[tuple[str | None, Path]],
    settings: EvaluateSettings,
    benchmarks: Sequence[OpenedBenchmark],
) -> RecordedSuite:
    """By model: the benchmarks that its files have answers to."""
    recorded_suite: RecordedSuite = defaultdict(list)
    renamed: set[str] = set()
    for name, path in files:
        chosen = [benchmark for benchmark in benchmarks if name is None or benchmark.name == name]
        known = {item.id for opened_benchmark in chosen for item in opened_benchmark.benchmark}
        file = read_recorded_rows(path, settings.mapping, known)
        origin = file_origin(path)
        if settings.name is not None:
            renamed |= {row.model for row in file.rows if row.model}
            if len(renamed) > 1:
                raise InputError(
                    f"name: {settings.name} is one name, but the column 'model' of {path} names "
                    f"{len(renamed)} models: {', '.join(sorted(renamed)[:3])}; leave it out"
                )
            file = replace(file, rows=[replace(row, model=None) for row in file.rows])
        for opened, belongs in _shares(path, file, chosen):
            answers = read_answers(
                path,
                opened.benchmark,
                file=file,
                model=settings.name,
                belongs=belongs,
                setting="mapping",
            )
            for model, recorded_answers in answers.items():
                if any(other.name == opened.name for other, _, _ in recorded_suite[model]):
                    raise InputError(
                        f"{path}: there are answers of '{model}' to {opened.name} in an earlier file, too; "
                        f"several models need a column 'model', or their own run folders"
                    )
                recorded_suite[model].append((opened, recorded_answers, origin))
    return dict(recorded_suite)


def _named(text: str, benchmarks: Sequence[str]) -> tuple[str | None, Path]:
    head, equals, tail = text.partition("=")
    known = {benchmark.lower(): benchmark for benchmark in benchmarks}
    if equals and not is_path(text):
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
    names = {row.benchmark for row in rows if row.benchmark}
    by_name = {
        benchmark.name: _spellings(benchmark) & {_plain(name) for name in names}
        for benchmark in benchmarks
    }
    if any(by_name.values()):
        return [
            (benchmark, _of(by_name[benchmark.name]))
            for benchmark in benchmarks
            if by_name[benchmark.name]
        ]
    owners: dict[str, list[str]] = defaultdict(list)
    for benchmark in benchmarks:
        for item in benchmark.benchmark:
            owners[item.id].append(benchmark.name)
    mine = {row.id for row in rows if row.id is not None}
    shared = next((item for item in mine if len(owners.get(item, ())) > 1), None)
    if shared is not None:
        raise InputError(
            f"{path}: item '{shared}' is in {' and '.join(owners[shared][:2])}: name the benchmark in a "
            f"column 'benchmark', or give a file each: {owners[shared][0]}=FILE"
        )
    answered = [
        benchmark
        for benchmark in benchmarks
        if any(item.id in mine for item in benchmark.benchmark)
    ]
    if not answered:
        if not rows:
            raise InputError(
                f"{path}: there is no answer in it; expected rows with id and prediction"
            )
        theirs = ", ".join(sorted(mine)[:3]) or "none"
        ours = ", ".join(benchmark.benchmark.examples[0].id for benchmark in benchmarks[:3])
        raise InputError(
            f"{path}: no row is about an item of the suite. Its ids are like {theirs}; the suite's are "
            f"like {ours}. Name its columns with the setting mapping (id=COLUMN, "
            f"benchmark=COLUMN)"
        )
    shares = [{item.id for item in opened_benchmark.benchmark} for opened_benchmark in answered]
    shares[0] |= mine - set(owners)  # rows about no item of the suite are listed once, as unknown
    return [
        (opened_benchmark, _among(ids))
        for opened_benchmark, ids in zip(answered, shares, strict=True)
    ]


def _spellings(opened_benchmark: OpenedBenchmark) -> set[str]:
    """What a file may call the benchmark: its name in the suite, or the value that selects it."""
    selected = (
        opened_benchmark.entry.source.rpartition("=")[2]
        if "=" in opened_benchmark.entry.source
        else opened_benchmark.name
    )
    return {_plain(opened_benchmark.name), _plain(selected)}


def _plain(name: str | None) -> str:
    return (name or "").lower().translate(_PLAIN)


def _of(names: set[str]) -> Callable[[RecordedRow], bool]:
    return lambda row: _plain(row.benchmark) in names


def _among(ids: set[str]) -> Callable[[RecordedRow], bool]:
    return lambda row: row.id in ids
