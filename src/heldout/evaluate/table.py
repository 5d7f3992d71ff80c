"""The table of one model: accuracy per benchmark with intervals by image, their mean, and without what leaked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.benchmark import OUTCOMES, Benchmark
from heldout.errors import InputError
from heldout.evaluate.opening import OpenedBenchmark
from heldout.evaluate.scorers import SCORERS, explained
from heldout.evaluate.suite import MEAN
from heldout.evidence import OPEN, PROVEN, leaks_of, read_leak_labels
from heldout.model import Question
from heldout.stats import Interval, cluster_mean, cluster_rate_interval
from heldout.store import Run, is_path

# Which items of a benchmark leaked: by a run of ``heldout overlap``, or by labels made elsewhere.


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
    if equals and head.lower() in known and not is_path(text):
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


ALL = "all"
SUBSETS = (ALL, LEAKED, CLEAN)
RECORDED = "recorded"  # the prompt of answers made elsewhere


@dataclass(frozen=True)
class ItemGrades:
    """One model's grades on one benchmark, item by item; several draws of an item are averaged."""

    model: str
    benchmark: str
    ids: tuple[str, ...]
    right: NDArray[np.float64]
    clusters: tuple[str, ...]
    outcomes: Mapping[str, int]
    templates: frozenset[str]
    items: int
    prompt_tokens: int = 0
    reply_tokens: int = 0
    #: fewest and most replies to an item
    draws: tuple[int, int] = (1, 1)
    #: by scorer, aligned with ids
    others: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def recorded(self) -> bool:
        """Answers made elsewhere: how they were asked for is not known."""
        return RECORDED in self.templates

    def chosen(self, wanted: Collection[str] | None) -> NDArray[np.bool_]:
        if wanted is None:
            return np.ones(len(self.ids), dtype=bool)
        return np.array([item in wanted for item in self.ids], dtype=bool)


@dataclass(frozen=True)
class BenchmarkAccuracy:
    """Accuracy of one model on one subset of one benchmark, or the mean over benchmarks, where
    ``benchmark`` is ``mean``. ``error`` is the cluster-robust standard error."""

    model: str
    benchmark: str
    subset: str
    n: int
    clusters: int
    value: float
    error: float
    interval: Interval
    benchmarks: int = 1
    counts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "interval": self.interval._asdict(), "counts": dict(self.counts)}


def item_grades(
    rows: Sequence[Mapping[str, Any]],
    clusters: Mapping[str, str],
    benchmark: str,
    model: str,
    items: int,
    scorers: Sequence[str] = (),
) -> tuple[ItemGrades, list[dict[str, Any]]]:
    """Grades of the answers of one model, and every reply that a published scorer grades differently."""
    right: dict[str, list[float]] = {}
    others: dict[str, dict[str, list[float]]] = {name: {} for name in scorers}
    outcomes = dict.fromkeys(OUTCOMES, 0)
    disagreements: list[dict[str, Any]] = []
    for row in rows:
        name, hit = row["benchmark_id"], row["outcome"] == "right"
        right.setdefault(name, []).append(float(hit))
        outcomes[row["outcome"]] += 1
        question = _question(row)
        for scorer in scorers:
            verdict = SCORERS[scorer](row["reply"], question)
            others[scorer].setdefault(name, []).append(float(verdict.right))
            if verdict.right != hit:
                disagreements.append(
                    {
                        "benchmark": benchmark,
                        "benchmark_id": name,
                        "model": model,
                        "draw": row["draw"],
                        "scorer": scorer,
                        "strict": row["outcome"],
                        "scorer_right": verdict.right,
                        "scorer_read": verdict.read[:500],
                        "gold": row["gold"],
                        "reply": row["reply"],
                        "why": explained(
                            row["outcome"], row["parsed"], row["rule"], verdict, row["options"]
                        ),
                    }
                )
    ids = tuple(right)
    grades = ItemGrades(
        model,
        benchmark,
        ids,
        _means(right, ids),
        tuple(clusters.get(item, item) for item in ids),
        outcomes,
        frozenset(row["template"] for row in rows),
        items,
        sum(row["prompt_tokens"] or 0 for row in rows),
        sum(row["reply_tokens"] or 0 for row in rows),
        (min(map(len, right.values())), max(map(len, right.values()))),
        {name: _means(record, ids) for name, record in others.items()},
    )
    return grades, disagreements


def accuracies(
    grades: Sequence[ItemGrades], leaks: Mapping[str, ItemLabels] | None = None
) -> list[BenchmarkAccuracy]:
    """Of one model: every benchmark on all, leaked and clean items, then the mean over benchmarks."""
    table: list[BenchmarkAccuracy] = []
    for subset in SUBSETS if leaks else (ALL,):
        listed = []
        for grade in grades:
            wanted = None
            if subset != ALL:
                if leaks is None or grade.benchmark not in leaks:
                    continue
                wanted = leaks[grade.benchmark].chosen(subset)
            benchmark_accuracy = _accuracy(grade, subset, grade.chosen(wanted))
            if benchmark_accuracy is not None:
                listed.append(benchmark_accuracy)
        table += listed
        if len(listed) > 1:
            table.append(_mean(listed, subset))
    return table


def _accuracy(grades: ItemGrades, subset: str, mask: NDArray[np.bool_]) -> BenchmarkAccuracy | None:
    if not mask.any():
        return None
    values = grades.right[mask]
    groups = [group for group, kept in zip(grades.clusters, mask, strict=True) if kept]
    value, error, _ = cluster_mean(values, groups)
    counts: dict[str, Any] = {}
    if subset == ALL:
        counts = {
            **grades.outcomes,
            "items": grades.items,
            "prompt_tokens": grades.prompt_tokens,
            "reply_tokens": grades.reply_tokens,
            "scorers": {
                name: {
                    "accuracy": float(other.mean()),
                    "disagree": int((other != grades.right).sum()),
                }
                for name, other in grades.others.items()
            },
        }
    return BenchmarkAccuracy(
        grades.model,
        grades.benchmark,
        subset,
        len(values),
        len(set(groups)),
        value,
        error if np.isfinite(error) else 0.5,
        cluster_rate_interval(values, groups),
        1,
        counts,
    )


def _mean(parts: Sequence[BenchmarkAccuracy], subset: str) -> BenchmarkAccuracy:
    count = len(parts)
    value = sum(part.value for part in parts) / count
    # The benchmarks' own intervals are put together (Zou and Donner's MOVER), each side by itself: a
    # benchmark at 0 or 100 % has no spread, but an interval.
    below, above = (
        float(np.linalg.norm(reaches)) / count
        for reaches in zip(
            *((part.value - part.interval.low, part.interval.high - part.value) for part in parts),
            strict=True,
        )
    )
    interval = Interval(
        max(0.0, value - below), min(1.0, value + above), 0.95, "MOVER, benchmarks independent"
    )
    error = float(np.linalg.norm([part.error for part in parts])) / count
    sums = ("unparsed", "refused", "prompt_tokens", "reply_tokens", "items")
    counts = {name: sum(part.counts.get(name, 0) for part in parts) for name in sums}
    return BenchmarkAccuracy(
        parts[0].model,
        MEAN,
        subset,
        sum(part.n for part in parts),
        sum(part.clusters for part in parts),
        value,
        error,
        interval,
        count,
        counts if subset == ALL else {},
    )


def combined(
    errors: Sequence[float], freedoms: Sequence[int], level: float = 0.95
) -> tuple[float, float]:
    """Standard error of a sum of independent estimates, and half of its interval (Welch–Satterthwaite)."""
    squares = np.square(np.asarray(errors, dtype=np.float64))
    total = float(squares.sum())
    if total <= 0:
        return 0.0, 0.0
    freedom = total**2 / float((squares**2 / np.maximum(np.asarray(freedoms, float), 1.0)).sum())
    return total**0.5, float(special.stdtrit(freedom, 0.5 + level / 2)) * total**0.5


def accuracy_frame(listed: Sequence[BenchmarkAccuracy]) -> pl.DataFrame:
    """Accuracies as a data frame, one row per model, benchmark and subset."""
    return pl.DataFrame(
        [
            {
                "model": benchmark_accuracy.model,
                "benchmark": benchmark_accuracy.benchmark,
                "subset": benchmark_accuracy.subset,
                "n": benchmark_accuracy.n,
                "clusters": benchmark_accuracy.clusters,
                "accuracy": benchmark_accuracy.value,
                "error": benchmark_accuracy.error,
                "low": benchmark_accuracy.interval.low,
                "high": benchmark_accuracy.interval.high,
                "unparsed": benchmark_accuracy.counts.get("unparsed"),
                "refused": benchmark_accuracy.counts.get("refused"),
                "prompt_tokens": benchmark_accuracy.counts.get("prompt_tokens"),
                "reply_tokens": benchmark_accuracy.counts.get("reply_tokens"),
            }
            for benchmark_accuracy in listed
        ],
        infer_schema_length=None,
    )


def _question(row: Mapping[str, Any]) -> Question:
    return Question(
        row["benchmark_id"], row["variant"], "", (), tuple(row["options"] or ()), (), row["gold"]
    )


def _means(values: Mapping[str, Sequence[float]], ids: Sequence[str]) -> NDArray[np.float64]:
    return np.array([float(np.mean(values[text])) for text in ids], dtype=np.float64)
