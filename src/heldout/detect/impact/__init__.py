"""Impact: how much a score owes to what leaked."""

from heldout.detect.impact.findings import adjust_impacts, impact_findings
from heldout.detect.impact.impact import Impact, Line, Owed, measure_impact
from heldout.detect.impact.predictions import METRICS, Predictions, read_predictions
from heldout.detect.impact.study import Study, study_impact

__all__ = [
    "METRICS",
    "Impact",
    "Line",
    "Owed",
    "Predictions",
    "Study",
    "adjust_impacts",
    "impact_findings",
    "measure_impact",
    "read_predictions",
    "study_impact",
]
