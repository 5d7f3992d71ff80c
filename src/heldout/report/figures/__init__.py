"""Figures as SVG text: no plotting library, light and dark by the page's own colours."""

from heldout.report.figures.bars import (
    RateBar,
    WaterfallStep,
    bar_chart,
    bin_chart,
    funnel_chart,
    rate_chart,
)
from heldout.report.figures.curves import (
    Curve,
    OperatingPoint,
    Series,
    Slope,
    StepCurve,
    flag_fraction_chart,
    roc_chart,
    slope_chart,
    step_chart,
)
from heldout.report.figures.distributions import Strip, heat_map, null_strips, similarity_histogram
from heldout.report.figures.power import tail_chart
from heldout.report.figures.svg import for_paper, standalone

__all__ = [
    "Curve",
    "OperatingPoint",
    "RateBar",
    "Series",
    "Slope",
    "StepCurve",
    "Strip",
    "WaterfallStep",
    "bar_chart",
    "bin_chart",
    "flag_fraction_chart",
    "for_paper",
    "funnel_chart",
    "heat_map",
    "null_strips",
    "rate_chart",
    "roc_chart",
    "similarity_histogram",
    "slope_chart",
    "standalone",
    "step_chart",
    "tail_chart",
]
