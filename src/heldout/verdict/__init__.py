"""Controls and claims: what a finding is worth once it has been challenged."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.verdict._model_claims import AWAY, LAB
    from heldout.verdict._reworded import REWORDINGS, TOO_FEW
    from heldout.verdict.challenge import CONTROLS, ControlInput, against_baseline
    from heldout.verdict.claim import (
        ACTIONS,
        CORPUS_COVERAGE,
        NOTHING_TO_COMPARE,
        PLAIN,
        WHOLE_CORPUS,
        Claim,
        Control,
        Status,
        actions,
        rung_words,
    )
    from heldout.verdict.corrected import ACCURACY, CLEAN, CorrectedScores, correct_scores
    from heldout.verdict.examine import (
        Detection,
        DetectorOutcomes,
        Examination,
        claims_frame,
        claims_html,
        detect_run,
        examine,
        findings_frame,
        judge,
        look,
        save_examination,
    )
    from heldout.verdict.looks import earlier_looks, record_looks
    from heldout.verdict.measured import (
        INTRACLASS,
        LAB_KINDS,
        RAW,
        REFERENCES,
        BenchmarkRate,
        FiringCount,
        MeasuredRate,
        MeasuredRates,
        Provenance,
        independent_models,
        read_rates,
        shipped_rates,
    )
    from heldout.verdict.nearness_claims import nearness_claims
    from heldout.verdict.overall import (
        NEARNESS,
        ONE_FORM,
        PRESSING,
        REPLACE,
        CellVerdict,
        Overall,
        benchmark_verdict,
        is_leak,
        overall_verdict,
        recommend,
    )
    from heldout.verdict.overlap_claims import overlap_claims
    from heldout.verdict.people import with_people, with_people_on_words
    from heldout.verdict.published_claims import PublishedMap, published_map
    from heldout.verdict.published_map import Reading
    from heldout.verdict.rules import ANSWERS, COPIES
    from heldout.verdict.text_claims import (
        source_claim,
        text_claim,
        words_compared,
    )

__all__ = [
    "ACCURACY",
    "ACTIONS",
    "ANSWERS",
    "AWAY",
    "CLEAN",
    "CONTROLS",
    "COPIES",
    "CORPUS_COVERAGE",
    "INTRACLASS",
    "LAB",
    "LAB_KINDS",
    "NEARNESS",
    "NOTHING_TO_COMPARE",
    "ONE_FORM",
    "PLAIN",
    "PRESSING",
    "RAW",
    "REFERENCES",
    "REPLACE",
    "REWORDINGS",
    "TOO_FEW",
    "WHOLE_CORPUS",
    "BenchmarkRate",
    "CellVerdict",
    "Claim",
    "Control",
    "ControlInput",
    "CorrectedScores",
    "Detection",
    "DetectorOutcomes",
    "Examination",
    "FiringCount",
    "MeasuredRate",
    "MeasuredRates",
    "Overall",
    "Provenance",
    "PublishedMap",
    "Reading",
    "Status",
    "actions",
    "against_baseline",
    "benchmark_verdict",
    "claims_frame",
    "claims_html",
    "correct_scores",
    "detect_run",
    "earlier_looks",
    "examine",
    "findings_frame",
    "independent_models",
    "is_leak",
    "judge",
    "look",
    "nearness_claims",
    "overall_verdict",
    "overlap_claims",
    "published_map",
    "read_rates",
    "recommend",
    "record_looks",
    "rung_words",
    "save_examination",
    "shipped_rates",
    "source_claim",
    "text_claim",
    "with_people",
    "with_people_on_words",
    "words_compared",
]

__getattr__ = load_on_first_use(__name__, __file__)
