"""Which items of a benchmark leaked: by a run of ``heldout overlap``, or by labels made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark import Benchmark
from heldout.errors import InputError
from heldout.evaluate.opening import OpenedBenchmark
from heldout.evidence import OPEN, PROVEN, leaks_of, read_leak_labels
from heldout.store import Run

LEAKED, CLEAN, UNDECIDED = "leaked", "clean", "undecided"


@dataclass(frozen=True)
class ItemLabels:
    """``labels``: by item leaked, clean or undecided; items that were not compared have none."""

    source: str
    labels: Mapping[str, str]
    remark: str = ""

    def chosen(self, label: str) -> frozenset[str]:
        return frozenset(item for item, known in self.labels.items() if known == label)


def read_leaks(
    sources: Sequence[str], benchmarks: Sequence[OpenedBenchmark]
) -> dict[str, ItemLabels]:
    """By benchmark of the suite. Each source is RUN or FILE, or BENCHMARK=RUN, BENCHMARK=FILE."""
    leaks: dict[str, ItemLabels] = {}
    for text in sources:
        name, source = _named(text, benchmarks)
        opened = _about(name, source, benchmarks)
        if opened.name in leaks:
            raise InputError(
                f"leaks: {source} and {leaks[opened.name].source} are both about {opened.name}; give one"
            )
        leaks[opened.name] = (
            _of_run(Run.open(source), opened.benchmark)
            if (Path(source) / "manifest.json").exists()
            else _of_labels(source, opened.benchmark)
        )
    return leaks


def _named(text: str, benchmarks: Sequence[OpenedBenchmark]) -> tuple[str | None, str]:
    head, equals, tail = text.partition("=")
    known = {benchmark.name.lower() for benchmark in benchmarks}
    if equals and head.lower() in known and not Path(text).exists():
        return head, tail
    return None, text


def _about(name: str | None, source: str, benchmarks: Sequence[OpenedBenchmark]) -> OpenedBenchmark:
    if name is not None:
        return next(benchmark for benchmark in benchmarks if benchmark.name.lower() == name.lower())
    if len(benchmarks) == 1:
        return benchmarks[0]
    folder = Path(source)
    if folder.is_dir() and (folder / "manifest.json").exists():
        items = set(Run.open(source).read_table("items").column("benchmark_id").to_pylist())
        same = [
            benchmark
            for benchmark in benchmarks
            if {item.id for item in benchmark.benchmark} <= items
        ]
        if len(same) == 1:
            return same[0]
    names = ", ".join(benchmark.name for benchmark in benchmarks)
    raise InputError(
        f"leaks {source}: which benchmark is it about? Write BENCHMARK={source}, with one of {names}"
    )


def _of_run(run: Run, benchmark: Benchmark) -> ItemLabels:
    if not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    items = run.read_table("items").to_pylist()
    compared = {row["benchmark_id"]: "" not in row["image_digests"] for row in items}
    lost = [item.id for item in benchmark if item.id not in compared]
    if len(lost) == len(benchmark):
        theirs = ", ".join(list(compared)[:3])
        raise InputError(
            f"{run.path} is about other items: none of {benchmark.name} is in it. Its ids are like "
            f"{theirs}, here they are like {', '.join(example.id for example in benchmark.examples[:3])}"
        )
    leaks = leaks_of(run)
    labels: dict[str, str] = {}
    for item in benchmark:
        if item.id not in compared:
            continue
        rung = leaks[item.id].gravest.rung if item.id in leaks else None
        if rung in PROVEN:
            labels[item.id] = LEAKED
        elif rung in OPEN or not compared[item.id]:
            labels[item.id] = UNDECIDED
        else:
            labels[item.id] = CLEAN
    return ItemLabels(str(run.path), labels, _remark(benchmark, labels, f"by {run.path}"))


def _of_labels(source: str, benchmark: Benchmark) -> ItemLabels:
    read = read_leak_labels(source, [item.id for item in benchmark])
    labels = {
        item: CLEAN if item in read.clean else UNDECIDED if item in read.undecided else LEAKED
        for item in read.kinds
    }
    return ItemLabels(source, labels, read.sentence)


def _remark(benchmark: Benchmark, labels: Mapping[str, str], source: str) -> str:
    counts = {name: list(labels.values()).count(name) for name in (LEAKED, CLEAN, UNDECIDED)}
    message = (
        f"{benchmark.name}: {counts[LEAKED]:,} items leaked and {counts[CLEAN]:,} did not, {source}"
    )
    if counts[UNDECIDED]:
        message += f"; {counts[UNDECIDED]:,} are undecided and in neither"
    if len(labels) < len(benchmark):
        message += f"; {len(benchmark) - len(labels):,} were not compared"
    return message
