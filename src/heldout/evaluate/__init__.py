"""Suites of benchmarks and what models score on them: accuracy by image, leaked and clean, paired."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.evaluate.compare import (
        DIFFER,
        UNCLEAR,
        PairedComparison,
        PairedDifference,
    )
    from heldout.evaluate.encoders.evaluation import encoder_name, evaluate_encoder
    from heldout.evaluate.encoders.result import EncoderEvaluation
    from heldout.evaluate.encoders.settings import EncoderSettings, EncoderTask
    from heldout.evaluate.opening import suite_benchmarks
    from heldout.evaluate.pipeline import evaluate
    from heldout.evaluate.published import CLEAR, DEPENDS, NOISE, PublishedStudy, study_published
    from heldout.evaluate.result import (
        SECTION,
        Evaluation,
        RunComparison,
        compare_runs,
        read_evaluation,
    )
    from heldout.evaluate.scorers import SCORERS
    from heldout.evaluate.settings import EvaluateSettings
    from heldout.evaluate.suite import MEAN, Suite, SuiteBenchmark, builtin_suites, read_suite
    from heldout.evaluate.table import ALL, SUBSETS, BenchmarkAccuracy, ItemGrades

__all__ = [
    "ALL",
    "CLEAR",
    "DEPENDS",
    "DIFFER",
    "MEAN",
    "NOISE",
    "SCORERS",
    "SECTION",
    "SUBSETS",
    "UNCLEAR",
    "BenchmarkAccuracy",
    "EncoderEvaluation",
    "EncoderSettings",
    "EncoderTask",
    "EvaluateSettings",
    "Evaluation",
    "ItemGrades",
    "PairedComparison",
    "PairedDifference",
    "PublishedStudy",
    "RunComparison",
    "Suite",
    "SuiteBenchmark",
    "builtin_suites",
    "compare_runs",
    "encoder_name",
    "evaluate",
    "evaluate_encoder",
    "read_evaluation",
    "read_suite",
    "study_published",
    "suite_benchmarks",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="evaluate_suite")
