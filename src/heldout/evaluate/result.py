"""Evaluation: a finished run as tables, computed from its folder alone."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from heldout.errors import InputError, html_table, percent
from heldout.evaluate.compare import PairedComparison, comparison_frame, rank_models
from heldout.evaluate.suite import MEAN
from heldout.evaluate.table import (
    ALL,
    BenchmarkAccuracy,
    ItemGrades,
    ItemLabels,
    accuracies,
    accuracy_frame,
    item_grades,
)
from heldout.stats import Rank
from heldout.store import Run, make_table

FOLDER, SECTION, LEAKS = "benchmarks", "evaluate", "leaks.json"


@dataclass(frozen=True)
class Evaluation:
    """What ``evaluate`` returns: tables as data frames, and the run they come from."""

    run: Run
    suite: str
    grades: Mapping[str, Sequence[ItemGrades]]
    accuracies: tuple[BenchmarkAccuracy, ...]
    disagreements: pl.DataFrame
    leaks: Mapping[str, ItemLabels] = field(default_factory=dict)
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], PairedComparison] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.grades)

    @property
    def table(self) -> pl.DataFrame:
        """One row per model, benchmark and subset; ``mean`` is the unweighted mean over benchmarks."""
        return accuracy_frame(self.accuracies)

    @property
    def comparisons(self) -> pl.DataFrame:
        """One row per pair of models and benchmark, and one for the mean; ``pairs`` has the objects."""
        return comparison_frame(self.pairs.values())

    def mean(self, model: str, subset: str = ALL) -> BenchmarkAccuracy:
        """A model's score on the suite: the mean, or its only benchmark."""
        mine = [
            accuracy
            for accuracy in self.accuracies
            if accuracy.model == model and accuracy.subset == subset
        ]
        return next(
            (
                benchmark_accuracy
                for benchmark_accuracy in mine
                if benchmark_accuracy.benchmark == MEAN
            ),
            mine[-1],
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "evaluation_version": 1,
            "run": str(self.run.path),
            "suite": self.suite,
            "models": list(self.models),
            "accuracies": [accuracy.as_json() for accuracy in self.accuracies],
            "disagreements": self.disagreements.height,
            "ranks": {name: rank._asdict() for name, rank in self.ranks.items()},
            "comparisons": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "remarks": list(pair.remarks),
                    "differences": [part.as_json() for part in pair.differences],
                }
                for pair in self.pairs.values()
            ],
            "costs": dict(self.costs),
            "remarks": list(self.remarks),
            "dropped": {model: dict(reasons) for model, reasons in self.dropped.items()},
            "leaks": {
                name: {"source": leak.source, "remark": leak.remark}
                for name, leak in self.leaks.items()
            },
        }

    def __repr__(self) -> str:
        scores = ", ".join(f"{model} {percent(self.mean(model).value)}" for model in self.models)
        return f"<Evaluation on {self.suite}: {scores}, run {self.run.path}>"

    def _repr_html_(self) -> str:
        rows = (
            (
                cell.model,
                cell.benchmark,
                cell.subset,
                cell.n,
                percent(cell.value),
                f"{percent(cell.interval.low)} – {percent(cell.interval.high)}",
            )
            for cell in self.accuracies
        )
        return html_table(("model", "benchmark", "items", "n", "accuracy", "95 %"), rows)


def read_evaluation(run: Run, *, seed: int | None = None) -> Evaluation:
    """Everything that an evaluation says, computed anew from the answers in its folder."""
    about = run.manifest().get(SECTION)
    if not about or "benchmarks" not in about:
        raise InputError(f"{run.path} is no run of heldout evaluate")
    leaks = _kept_leaks(run)
    grades: dict[str, list[ItemGrades]] = {}
    disagreements: list[dict[str, Any]] = []
    dropped: dict[str, dict[str, int]] = {}
    for name, benchmark in about["benchmarks"].items():
        part = Run(run.path / FOLDER / name)
        if not part.table_path("answers").exists():
            continue
        answers = pl.from_arrow(part.read_table("answers"))
        items = pl.from_arrow(part.read_table("items").select(["benchmark_id", "cluster"]))
        assert isinstance(answers, pl.DataFrame)
        assert isinstance(items, pl.DataFrame)
        clusters = dict(items.iter_rows())
        for model in answers["model"].unique(maintain_order=True):
            rows = answers.filter(
                (pl.col("model") == model) & (pl.col("variant") == "original")
            ).to_dicts()
            if rows:
                own_grades, differing = item_grades(
                    rows, clusters, name, model, items.height, benchmark["scorers"]
                )
                grades.setdefault(model, []).append(own_grades)
                disagreements += differing
                _count_dropped(part, model, dropped)
    listed = tuple(accuracy for mine in grades.values() for accuracy in accuracies(mine, leaks))
    ranks, pairs, unranked = (
        rank_models(grades, seed=run.manifest()["seed"] if seed is None else seed)
        if len(grades) > 1
        else ({}, {}, [])
    )
    remarks = (
        *about.get("remarks", ()),
        *_unanswered(grades, about["benchmarks"]),
        *_averaged(grades),
        *unranked,
    )
    frame = pl.from_arrow(make_table("disagreements", disagreements))
    assert isinstance(frame, pl.DataFrame)
    return Evaluation(
        run,
        about["suite"]["name"],
        grades,
        listed,
        frame,
        leaks,
        ranks,
        pairs,
        _costs(grades, about.get("prices", {})),
        remarks,
        dropped,
    )


def _unanswered(
    grades: Mapping[str, Sequence[ItemGrades]], benchmarks: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Models that have no answers at all to some benchmark: their mean is not the suite's."""
    messages = []
    for model, mine in grades.items():
        had = {grades.benchmark for grades in mine}
        lost = [
            f"{name} ({record['items']:,} items)"
            for name, record in benchmarks.items()
            if name not in had
        ]
        if lost:
            mean = (
                f"the mean is over the other {len(mine)} alone"
                if len(mine) > 1
                else f"there is no mean, only {mine[0].benchmark}"
            )
            messages.append(f"{model}: no answers to {', '.join(lost)}: {mean}")
    return messages


def _averaged(grades: Mapping[str, Sequence[ItemGrades]]) -> list[str]:
    messages = []
    for graded in itertools.chain.from_iterable(grades.values()):
        if graded.draws[1] <= 1:
            continue
        fewest, most = graded.draws
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        messages.append(
            f"{graded.model} on {graded.benchmark}: {count} replies to every item, averaged by item"
        )
    return messages


def write_evaluation(evaluation: Evaluation) -> None:
    """``evaluation.json`` and the tables; call inside run.writing()."""
    run = evaluation.run
    rows = evaluation.table.to_dicts()
    run.write_table("accuracies", make_table("accuracies", rows))
    run.write_table(
        "disagreements", make_table("disagreements", evaluation.disagreements.to_dicts())
    )
    run.write_json("evaluation.json", evaluation.as_json())


def keep_leaks(run: Run, leaks: Mapping[str, ItemLabels]) -> None:
    """Labels in the run folder, so that its tables are made again from it alone; earlier ones of other
    benchmarks stay."""
    if not leaks and not (run.path / LEAKS).exists():
        return
    kept = {
        name: {
            "source": item_labels.source,
            "remark": item_labels.remark,
            "labels": dict(item_labels.labels),
        }
        for name, item_labels in {**_kept_leaks(run), **leaks}.items()
    }
    run.write_json(LEAKS, {"schema_version": 1, "benchmarks": kept})


def _kept_leaks(run: Run) -> dict[str, ItemLabels]:
    if not (run.path / LEAKS).exists():
        return {}
    kept = run.read_json(LEAKS)["benchmarks"]
    return {
        name: ItemLabels(record["source"], record["labels"], record["remark"])
        for name, record in kept.items()
    }


def _costs(
    grades: Mapping[str, Sequence[ItemGrades]], prices: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    return {
        model: sum(
            grades.prompt_tokens * prices[model][0] + grades.reply_tokens * prices[model][1]
            for grades in mine
        )
        / 1e6
        for model, mine in grades.items()
        if model in prices and any(prices[model])
    }


def _count_dropped(part: Run, model: str, dropped: dict[str, dict[str, int]]) -> None:
    mine = dropped.setdefault(model, {})
    for row in part.read_table("dropped").to_pylist():
        if row["stage"] == "ask" and row["id"].startswith(f"{model}/"):
            mine[row["reason"]] = mine.get(row["reason"], 0) + 1


# Several evaluations side by side: the models of two or more run folders, paired item by item.


@dataclass(frozen=True)
class RunComparison:
    """Every model of the runs, ranked, and every pair of them compared."""

    grades: Mapping[str, Sequence[ItemGrades]]
    accuracies: tuple[BenchmarkAccuracy, ...]
    ranks: Mapping[str, Rank]
    pairs: Mapping[tuple[str, str], PairedComparison]
    remarks: tuple[str, ...] = ()

    @property
    def comparisons(self) -> pl.DataFrame:
        """One row per pair of models and benchmark, and one for the mean."""
        return comparison_frame(self.pairs.values())


def compare_runs(paths: Sequence[str | Path], *, seed: int = 0) -> RunComparison:
    """Compare the models of several run folders of ``heldout evaluate`` on the items they share.

    Args:
        paths: Run folders, at least two, or one with several models.
        seed: Seed of the permutation tests.

    Returns:
        Ranks with intervals, and paired differences of every pair of models.
    """
    read = [read_evaluation(Run.open(path), seed=seed) for path in paths]
    _check(read)
    unfinished = [remark for evaluation in read for remark in _unfinished(evaluation)]
    counts = Counter(model for evaluation in read for model in evaluation.models)
    grades: dict[str, Sequence[ItemGrades]] = {}
    for evaluation in read:
        for model, mine in evaluation.grades.items():
            name = model if counts[model] == 1 else f"{evaluation.run.path.resolve().name}: {model}"
            if name in grades:
                raise InputError(f"two runs hold '{name}': give them folders with different names")
            grades[name] = [replace(part, model=name) for part in mine]
    if len(grades) < 2:
        raise InputError("a comparison needs two models: name two run folders of heldout evaluate")
    ranks, pairs, remarks = rank_models(grades, seed=seed)
    if not pairs:
        raise InputError(f"{' and '.join(grades)} have no benchmark in common")
    listed = tuple(part for mine in grades.values() for part in accuracies(mine))
    return RunComparison(grades, listed, ranks, pairs, (*unfinished, *remarks))


def _unfinished(evaluation: Evaluation) -> list[str]:
    """A remark where a run lacks answers to a benchmark of its suite; one without any is refused."""
    path = evaluation.run.path
    if not evaluation.grades:
        raise InputError(
            f"{path} holds no finished answers: give its own command again, or leave it out"
        )
    answered = {part.benchmark for mine in evaluation.grades.values() for part in mine}
    missing = [
        name for name in evaluation.run.manifest()[SECTION]["benchmarks"] if name not in answered
    ]
    return [f"{path} is not finished: no answers to {', '.join(missing)}"] if missing else []


def _check(read: Sequence[Evaluation]) -> None:
    """Items are paired by id: both runs must have read the same revision of a benchmark."""
    known: dict[str, tuple[str, Path]] = {}
    for evaluation in read:
        for folder in sorted((evaluation.run.path / FOLDER).glob("*/manifest.json")):
            about = Run.open(folder.parent).manifest()["inputs"].get("benchmark")
            if about is None:
                continue
            first = known.setdefault(about["name"], (about["fingerprint"], evaluation.run.path))
            if first[0] != about["fingerprint"]:
                raise InputError(
                    f"{about['name']} is not the same in {first[1]} (revision {first[0][:12]}) and "
                    f"{evaluation.run.path} (revision {about['fingerprint'][:12]}): evaluate both models on one "
                    f"revision"
                )
