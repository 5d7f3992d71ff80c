"""What a similarity is worth: nulls, thresholds, sweeps, controls, degrees, hubs and matrices."""

from heldout.overlap.calibration.degrees import (
    DEGREES,
    Degrees,
    Graded,
    calibrated_degrees,
    degree,
    degrees_of,
)
from heldout.overlap.calibration.matrices import (
    Hub,
    HubReport,
    MatrixRun,
    hub_report,
    leakage_matrix,
)
from heldout.overlap.calibration.null import (
    Null,
    null_similarities,
    recorded_null,
    reference_null,
)
from heldout.overlap.calibration.sweep import (
    ALPHAS,
    Control,
    Rate,
    Sweep,
    SweepPoint,
    alpha_sweep,
    flag_p,
    negative_control,
)
from heldout.overlap.calibration.threshold import Threshold, threshold

__all__ = [
    "ALPHAS",
    "DEGREES",
    "Control",
    "Degrees",
    "Graded",
    "Hub",
    "HubReport",
    "MatrixRun",
    "Null",
    "Rate",
    "Sweep",
    "SweepPoint",
    "Threshold",
    "alpha_sweep",
    "calibrated_degrees",
    "degree",
    "degrees_of",
    "flag_p",
    "hub_report",
    "leakage_matrix",
    "negative_control",
    "null_similarities",
    "recorded_null",
    "reference_null",
    "threshold",
]
