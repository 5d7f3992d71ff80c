"""Figures as SVG text: no plotting library, light and dark by the page's own colours."""

from heldout.report.figures.bars import (
    Rate,
    Step,
    bar_chart,
    bin_chart,
    funnel_chart,
    rate_chart,
)
from heldout.report.figures.confound import tail_chart
from heldout.report.figures.curves import Slope, StepCurve, slope_chart, step_chart
from heldout.report.figures.heat_map import heat_map
from heldout.report.figures.histogram import distance_histogram
from heldout.report.figures.null_strips import Strip, null_strips
from heldout.report.figures.radar import radar_chart
from heldout.report.figures.roc import Curve, OperatingPoint, roc_chart
from heldout.report.figures.svg import for_paper, standalone
from heldout.report.figures.sweep import Series, flag_fraction_chart

__all__ = [
    "Curve",
    "OperatingPoint",
    "Rate",
    "Series",
    "Slope",
    "Step",
    "StepCurve",
    "Strip",
    "bar_chart",
    "bin_chart",
    "distance_histogram",
    "flag_fraction_chart",
    "for_paper",
    "funnel_chart",
    "heat_map",
    "null_strips",
    "radar_chart",
    "rate_chart",
    "roc_chart",
    "slope_chart",
    "standalone",
    "step_chart",
    "tail_chart",
]
