"""Several evaluations side by side: the models of two or more run folders, paired item by item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from heldout.errors import InputError
from heldout.evaluate.compare import PairedComparison, comparison_frame, rank_models
from heldout.evaluate.result import FOLDER, SECTION, Evaluation, read_evaluation
from heldout.evaluate.table import BenchmarkAccuracy, ItemGrades, accuracies
from heldout.stats import Rank
from heldout.store import Run


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
