"""Impact: how much a score owes to what leaked."""

from heldout.detect.impact.impact import Impact, Line, Owed, impact_findings, measure_impact
from heldout.detect.impact.predictions import METRICS, Predictions, read_predictions
from heldout.detect.impact.study import Study, study_impact

__all__ = [
    "METRICS",
    "Impact",
    "Line",
    "Owed",
    "Predictions",
    "Study",
    "impact_findings",
    "measure_impact",
    "read_predictions",
    "study_impact",
]
