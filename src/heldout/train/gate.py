"""The gate before training: the training set is compared with every benchmark that will be reported on."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import CorpusItem, Shard
from heldout.cure import GateResult, write_gate
from heldout.engine import Engine
from heldout.errors import HeldoutError, InputError, counted
from heldout.image import ImageError
from heldout.overlap import NearSearch, TextSearch, can_register, scan, scan_texts
from heldout.store import Dropped, Run, write_json
from heldout.train._training_set import TrainingItem, TrainingSet
from heldout.train.settings import TrainSettings

FOLDER = "gate"
_SHARD = 256
_FURTHER = "#image"  # the second image of row R is R#image2


class GateError(HeldoutError):
    """The training set leaks a benchmark, or was compared with none (exit code 1)."""

    exit_code = 1


@dataclass(frozen=True)
class GateRecord:
    """What the gate found and what was removed, for the manifest and the model's card."""

    benchmarks: tuple[
        dict[str, Any], ...
    ]  # name, source, revision, items, leaked items, training rows that hold them
    compared: int  # training rows that were compared
    leaking: int  # of these, rows that hold an item of a benchmark
    removed: int
    passed: bool  # nothing leaked, and everything was read
    forced: str = ""  # the reason for training although the gate failed
    sentence: str = ""

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        names = ", ".join(benchmark["benchmark"] for benchmark in self.benchmarks)
        if not self.benchmarks:
            return f"Not compared with any benchmark. Reason given: {self.forced}"
        if self.passed:
            return f"No training row was found to hold an item of {names}."
        if not self.forced and not self.removed:
            return f"Nothing was trained: {counted(self.leaking, 'row holds', 'rows hold')} items of {names}."
        if not self.forced:
            return (
                f"{counted(self.removed, 'training row that held', 'training rows that held')} items of "
                f"{names} {'was' if self.removed == 1 else 'were'} removed before training."
            )
        return (
            f"CONTAMINATED: trained on {counted(self.leaking, 'row that holds', 'rows that hold')} items "
            f"of {names}. The gate was opened by hand; reason given: {self.forced}"
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


@dataclass
class TrainingCorpus:
    """The training set as ``overlap`` reads corpora; a row with several images is several items."""

    name: str
    source: str
    items: tuple[TrainingItem, ...]
    reader: str = "training set"

    def shards(self) -> Iterator[Shard]:
        for index, start in enumerate(range(0, len(self.items), _SHARD)):
            part = self.items[start : start + _SHARD]
            message = repr([(item.id, item.images, item.question, item.answer) for item in part])
            key = hashlib.sha256(message.encode("utf-8", "replace")).hexdigest()
            yield Shard(index, f"rows {start} to {start + len(part) - 1}", key, part)

    def __reduce__(self) -> Any:
        """A worker gets its rows with the shard, not all of them with every shard."""
        return TrainingCorpus, (self.name, self.source, (), self.reader)

    def count_shards(self) -> int | None:
        return -(-len(self.items) // _SHARD)

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        for item in shard.payload:
            words = {"question": item.question, "answer": item.answer}
            first = item.images[0] if item.images else None
            yield CorpusItem(item.id, first, metadata={"options": list(item.options)}, **words)
            for number, image in enumerate(item.images[1:], 2):
                yield CorpusItem(f"{item.id}{_FURTHER}{number}", image, **words)


def take_comparisons(run: Run, other: str | Path) -> None:
    """Start from the comparisons of another training. Comparisons record their inputs: those of other rows,
    benchmarks or settings are made again."""
    source, target = Path(other) / FOLDER, run.path / FOLDER
    if not (source / "overlap").is_dir():
        raise InputError(
            f"gate_from {other}: there are no comparisons (gate/overlap); expected the run folder of a "
            f"training with benchmarks to compare with"
        )
    for name in ("overlap", "embeddings"):
        if (source / name).is_dir() and not (target / name).exists():
            building = target / f".{name}.building"
            shutil.rmtree(building, ignore_errors=True)
            ignored = shutil.ignore_patterns("*.lock")
            shutil.copytree(source / name, building, symlinks=True, ignore=ignored)
            building.rename(target / name)


def guard(
    settings: TrainSettings,
    data: TrainingSet,
    run: Run,
    engine: Engine,
    *,
    quiet: bool,
    benchmarks: Sequence[Benchmark] | None = None,
) -> tuple[TrainingSet, GateRecord]:
    """The rows that may be trained on, and what the gate said. Raises GateError where it fails.

    ``benchmarks`` are those that ``settings.against`` names, if they are already read.
    """
    if not settings.against:
        if not settings.open_gate:
            raise GateError(
                f"{data.source} has been compared with no benchmark. Name every benchmark that the model "
                f"will be evaluated on with the setting against, or give a reason with open_gate to train "
                f"without a comparison; the reason is written on the model's card"
            )
        readable = data.without(_unreadable(data))
        return readable, GateRecord((), 0, 0, 0, passed=False, forced=settings.open_gate)
    if benchmarks is None:
        benchmarks = [read_benchmark(source) for source in settings.against]
    runs = [_compare(settings, benchmark, data, run, engine, quiet) for benchmark in benchmarks]
    gate = write_gate(runs, run.path / FOLDER, strict=settings.strict)
    leaking = _leaking_rows(gate)
    unread = _unread_rows(runs, data)
    record = _record(settings, data, gate, leaking, benchmarks)
    write_json(run.path / FOLDER / "record.json", record.as_json())
    if record.forced:
        return data.without(unread), record
    # Rows that cannot be read are left out; a part that failed as a whole was compared with nothing.
    if any(stage["failed"] for run in runs for stage in run.manifest()["stages"].values()):
        raise GateError(f"{gate.sentence()} Give the same command again: finished parts are kept")
    if leaking and not settings.remove_leaks:
        raise GateError(
            f"{gate.sentence()} Set remove_leaks to train on the rest, or open_gate with a reason to train "
            f"on all of them; what matches what is in {gate.files['rows']}"
        )
    return data.without(unread | leaking), record


def _record(
    settings: TrainSettings,
    data: TrainingSet,
    gate: GateResult,
    leaking: dict[str, str],
    benchmarks: Sequence[Benchmark],
) -> GateRecord:
    failed = bool(leaking) or not gate.passed
    forced = settings.open_gate if failed and not settings.remove_leaks else ""
    return GateRecord(
        benchmarks=tuple(
            {
                "benchmark": protected.benchmark,
                "items": protected.items,
                "leaked": protected.leaked,
                "rows": protected.rows,
                "doubtful": protected.doubtful,
                "source": read.source,
                "revision": read.fingerprint,
            }
            for protected, read in zip(gate.protected, benchmarks, strict=True)
        ),
        compared=len(data.items),
        leaking=len(leaking),
        removed=len(leaking) if settings.remove_leaks else 0,
        passed=not leaking,
        forced=forced,
        sentence=gate.sentence(),
    )


def _compare(
    settings: TrainSettings,
    benchmark: Benchmark,
    data: TrainingSet,
    run: Run,
    engine: Engine,
    quiet: bool,
) -> Run:
    """One ``overlap`` run in the gate's folder: images by hash and encoder, words by every method."""
    digest = hashlib.sha256(benchmark.source.encode()).hexdigest()[:8]  # two may share a name
    name = re.sub(r"[^\w.-]+", "-", f"{benchmark.name}-{digest}")
    # A seed of its own: trainings with other seeds share their comparisons.
    searched = Run.create(run.path / FOLDER / "overlap" / name, seed=0)
    corpus = TrainingCorpus(data.name, data.source, data.items)
    near = None
    if settings.image_encoder is not None and can_register():
        near = NearSearch(settings.image_encoder, embeddings=run.path / FOLDER / "embeddings")
    words = TextSearch.installed(settings.text_encoder)
    with searched.writing():
        scanned = scan(benchmark, [corpus], searched, engine, near=near, quiet=quiet)
        scan_texts(benchmark, [corpus], searched, engine, words, scanned=scanned, quiet=quiet)
    return searched


def _row(corpus_id: str) -> str:
    return corpus_id.rpartition(_FURTHER)[0] or corpus_id


def _leaking_rows(gate: GateResult) -> dict[str, str]:
    """By training row, why it has to be removed."""
    rows: dict[str, str] = {}
    for row in gate.removed.to_dicts():
        message = f"{row['reason']}: {row['benchmark']} {row['benchmark_id']}, by {row['method']}"
        rows.setdefault(_row(str(row["corpus_id"])), message)
    return rows


def _unreadable(data: TrainingSet) -> dict[str, str]:
    """The same, where no comparison has opened the images."""
    reasons: dict[str, str] = {}
    for item in data.items:
        try:
            for ref in item.images:
                ref.open()
        except ImageError as error:
            reasons[item.id] = f"{error.reason}: {error.detail}"
    return reasons


def _unread_rows(runs: Sequence[Run], data: TrainingSet) -> dict[str, str]:
    """Rows whose image cannot be decoded: they can be neither compared nor trained on."""
    known = {item.id for item in data.items}
    return {
        name: f"{row['reason']}: {row['detail']}"
        for run in runs
        for row in run.read_table("dropped").to_pylist()
        if row["stage"] == "corpus" and (name := _row(str(row["id"]))) in known
    }
