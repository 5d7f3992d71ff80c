"""Impact: how much a score owes to what leaked."""

from heldout.detect.impact.encoders import keep_items, study_encoders
from heldout.detect.impact.findings import adjust_impacts, impact_findings
from heldout.detect.impact.impact import Impact, Line, Owed, measure_impact
from heldout.detect.impact.kept import keep_study, kept_studies
from heldout.detect.impact.predictions import METRICS, Predictions, read_predictions
from heldout.detect.impact.study import Study, study_impact
from heldout.detect.impact.subsets import COPY, LABELLED, LEAKAGES

__all__ = [
    "COPY",
    "LABELLED",
    "LEAKAGES",
    "METRICS",
    "Impact",
    "Line",
    "Owed",
    "Predictions",
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
