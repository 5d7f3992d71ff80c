"""Evaluation: a finished run as tables, computed from its folder alone."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from heldout.errors import InputError
from heldout.evaluate.compare import PairedComparison, comparison_frame, rank_models
from heldout.evaluate.leaked import ItemLabels
from heldout.evaluate.suite import MEAN
from heldout.evaluate.table import (
    ALL,
    BenchmarkAccuracy,
    ItemGrades,
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
        """A model's score on the suite; of its one benchmark where it has one."""
        mine = [one for one in self.accuracies if one.model == model and one.subset == subset]
        return next((one for one in mine if one.benchmark == MEAN), mine[-1])

    def as_json(self) -> dict[str, Any]:
        return {
            "evaluation_version": 1,
            "run": str(self.run.path),
            "suite": self.suite,
            "models": list(self.models),
            "accuracies": [one.as_json() for one in self.accuracies],
            "disagreements": self.disagreements.height,
            "ranks": {name: rank._asdict() for name, rank in self.ranks.items()},
            "comparisons": [
                {
                    "first": one.first,
                    "second": one.second,
                    "remarks": list(one.remarks),
                    "differences": [part.as_json() for part in one.differences],
                }
                for one in self.pairs.values()
            ],
            "costs": dict(self.costs),
            "remarks": list(self.remarks),
            "dropped": {model: dict(reasons) for model, reasons in self.dropped.items()},
            "leaks": {
                name: {"source": one.source, "remark": one.remark}
                for name, one in self.leaks.items()
            },
        }

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(one.model)}</td><td>{html.escape(one.benchmark)}</td>"
            f"<td>{one.subset}</td><td>{one.n:,}</td><td>{one.value:.1%}</td>"
            f"<td>{one.interval.low:.1%} – {one.interval.high:.1%}</td></tr>"
            for one in self.accuracies
        )
        heads = "".join(
            f"<th>{name}</th>" for name in ("model", "benchmark", "items", "n", "accuracy", "95 %")
        )
        return f"<table><tr>{heads}</tr>{rows}</table>"


def read_evaluation(run: Run, *, seed: int | None = None) -> Evaluation:
    """Everything that an evaluation says, computed anew from the answers in its folder."""
    about = run.manifest().get(SECTION)
    if not about or "benchmarks" not in about:
        raise InputError(f"{run.path} is no run of heldout evaluate")
    leaks = _kept_leaks(run)
    grades: dict[str, list[ItemGrades]] = {}
    disagreements: list[dict[str, Any]] = []
    dropped: dict[str, dict[str, int]] = {}
    for name, told in about["benchmarks"].items():
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
                made, differing = item_grades(
                    rows, clusters, name, model, items.height, told["scorers"]
                )
                grades.setdefault(model, []).append(made)
                disagreements += differing
                _count_dropped(part, model, dropped)
    listed = tuple(one for mine in grades.values() for one in accuracies(mine, leaks))
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
    told = []
    for model, mine in grades.items():
        had = {one.benchmark for one in mine}
        lost = [
            f"{name} ({one['items']:,} items)"
            for name, one in benchmarks.items()
            if name not in had
        ]
        if lost:
            mean = (
                f"the mean is over the other {len(mine)} alone"
                if len(mine) > 1
                else f"there is no mean, only {mine[0].benchmark}"
            )
            told.append(f"{model}: no answers to {', '.join(lost)}: {mean}")
    return told


def _averaged(grades: Mapping[str, Sequence[ItemGrades]]) -> list[str]:
    told = []
    for one in (one for mine in grades.values() for one in mine if one.draws[1] > 1):
        fewest, most = one.draws
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        told.append(
            f"{one.model} on {one.benchmark}: {count} replies to every item, averaged by item"
        )
    return told


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
        name: {"source": one.source, "remark": one.remark, "labels": dict(one.labels)}
        for name, one in {**_kept_leaks(run), **leaks}.items()
    }
    run.write_json(LEAKS, {"schema_version": 1, "benchmarks": kept})


def _kept_leaks(run: Run) -> dict[str, ItemLabels]:
    if not (run.path / LEAKS).exists():
        return {}
    kept = run.read_json(LEAKS)["benchmarks"]
    return {
        name: ItemLabels(one["source"], one["labels"], one["remark"]) for name, one in kept.items()
    }


def _costs(
    grades: Mapping[str, Sequence[ItemGrades]], prices: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    return {
        model: sum(
            one.prompt_tokens * prices[model][0] + one.reply_tokens * prices[model][1]
            for one in mine
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
