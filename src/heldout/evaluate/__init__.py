"""Suites of benchmarks and what models score on them: accuracy by image, leaked and clean, paired."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import heldout
from heldout.evaluate.compare import PairedComparison, PairedDifference, compare_models, rank_models
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


class _Verb(ModuleType):
    """This package, which Python names like the verb: ``heldout.evaluate(...)`` evaluates models.

    The verb also writes the page, which a room above this one does; it is reached through the package's
    front door.
    """

    def __call__(self, *args: Any, **values: Any) -> Evaluation:
        made: Evaluation = heldout.evaluate_suite(*args, **values)
        return made


sys.modules[__name__].__class__ = _Verb
