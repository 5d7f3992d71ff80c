"""Impact: how much a score owes to what leaked."""

from heldout.detect.impact._predictions import METRICS, Predictions, read_predictions
from heldout.detect.impact.impact import (
    COPY,
    LABELLED,
    LEAKAGES,
    Impact,
    Line,
    ScoreDifference,
    adjust_impacts,
    impact_findings,
    measure_impact,
)
from heldout.detect.impact.study import Study, keep_study, kept_studies, study_impact
from heldout.detect.impact.verb import keep_items, study_encoders

__all__ = [
    "COPY",
    "LABELLED",
    "LEAKAGES",
    "METRICS",
    "Impact",
    "Line",
    "Predictions",
    "ScoreDifference",
    "Study",
    "adjust_impacts",
    "impact_findings",
    "keep_items",
    "keep_study",
    "kept_studies",
    "measure_impact",
    "read_predictions",
    "study_encoders",
    "study_impact",
]
