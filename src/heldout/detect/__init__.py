"""Detectors: tables in, Finding out."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.detect.behaviour.compare import probe_detector
    from heldout.detect.behaviour.probe import Probe, two_variants
    from heldout.detect.detector import (
        TWIN_SCORES,
        Citation,
        Detector,
        Difference,
        Need,
        article,
        arxiv,
    )
    from heldout.detect.easiest import EASIEST, TopItems, easiest_items
    from heldout.detect.finding import (
        DETECTABLE,
        Cell,
        Effect,
        Finding,
        NotTestable,
        Outcome,
        Statistic,
        Strict,
        around,
        direction_of,
        model_finding,
        not_testable,
        rate_interval,
    )
    from heldout.detect.image_nearness import LEVEL, adjust, image_nearness
    from heldout.detect.image_overlap import POSSIBLE_IMAGES, image_overlap, joined_leakage
    from heldout.detect.impact.impact import (
        COPY,
        DRAWS,
        LABELLED,
        Block,
        Impact,
        Line,
        ScoreDifference,
        adjust_impacts,
        measure_impact,
    )
    from heldout.detect.impact.study import Study, kept_studies, study_impact
    from heldout.detect.impact.verb import ImpactSettings, study_encoders
    from heldout.detect.impact.verb import impact as impact_of_leaks
    from heldout.detect.item_scores import (
        LOSS,
        MIN_K_PLUS_PLUS,
        SMALLEST,
        cohort_delta,
        cohort_scores,
        item_detector,
    )
    from heldout.detect.order_joint import (
        CANONICAL,
        joint_shards,
        shard_gains,
    )
    from heldout.detect.order_neighbour import RELEASED
    from heldout.detect.registry import (
        GROUP,
        DetectorSupport,
        SelfCheck,
        answer_detectors,
        detectors,
        run_detectors,
        supported_detectors,
    )
    from heldout.detect.settings import ALPHA, DetectSettings
    from heldout.detect.tables import (
        Floats,
        ModelScores,
        ScoreTables,
        covariate,
        covariates,
        metadata_fields,
        no_scores,
        strata,
    )
    from heldout.detect.tail_enrichment import with_strata
    from heldout.detect.text_overlap import text_overlap, texts_missed
    from heldout.detect.triple_hits import TripleHits, triple_hits

__all__ = [
    "ALPHA",
    "CANONICAL",
    "COPY",
    "DETECTABLE",
    "DRAWS",
    "EASIEST",
    "GROUP",
    "LABELLED",
    "LEVEL",
    "LOSS",
    "MIN_K_PLUS_PLUS",
    "POSSIBLE_IMAGES",
    "RELEASED",
    "SMALLEST",
    "TWIN_SCORES",
    "Block",
    "Cell",
    "Citation",
    "DetectSettings",
    "Detector",
    "DetectorSupport",
    "Difference",
    "Effect",
    "Finding",
    "Floats",
    "Impact",
    "ImpactSettings",
    "Line",
    "ModelScores",
    "Need",
    "NotTestable",
    "Outcome",
    "Probe",
    "ScoreDifference",
    "ScoreTables",
    "SelfCheck",
    "Statistic",
    "Strict",
    "Study",
    "TopItems",
    "TripleHits",
    "adjust",
    "adjust_impacts",
    "answer_detectors",
    "around",
    "article",
    "arxiv",
    "cohort_delta",
    "cohort_scores",
    "covariate",
    "covariates",
    "detectors",
    "direction_of",
    "easiest_items",
    "image_nearness",
    "image_overlap",
    "impact_of_leaks",
    "item_detector",
    "joined_leakage",
    "joint_shards",
    "kept_studies",
    "measure_impact",
    "metadata_fields",
    "model_finding",
    "no_scores",
    "not_testable",
    "probe_detector",
    "rate_interval",
    "run_detectors",
    "shard_gains",
    "strata",
    "study_encoders",
    "study_impact",
    "supported_detectors",
    "text_overlap",
    "texts_missed",
    "triple_hits",
    "two_variants",
    "with_strata",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="detect_run")
