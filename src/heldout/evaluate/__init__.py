"""Suites of benchmarks and what models score on them: accuracy by image, leaked and clean, paired."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.evaluate.compare import (
        PairedComparison,
        PairedDifference,
        compare_models,
        rank_models,
    )
    from heldout.evaluate.opening import suite_benchmarks
    from heldout.evaluate.pipeline import evaluate
    from heldout.evaluate.result import Evaluation, read_evaluation
    from heldout.evaluate.runs import compare_runs
    from heldout.evaluate.scorers import SCORERS
    from heldout.evaluate.settings import EvaluateSettings
    from heldout.evaluate.suite import Suite, SuiteBenchmark, builtin_suites, read_suite
    from heldout.evaluate.table import BenchmarkAccuracy, ItemGrades

__all__ = [
    "SCORERS",
    "BenchmarkAccuracy",
    "EvaluateSettings",
    "Evaluation",
    "ItemGrades",
    "PairedComparison",
    "PairedDifference",
    "Suite",
    "SuiteBenchmark",
    "builtin_suites",
    "compare_models",
    "compare_runs",
    "evaluate",
    "rank_models",
    "read_evaluation",
    "read_suite",
    "suite_benchmarks",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="evaluate_suite")
