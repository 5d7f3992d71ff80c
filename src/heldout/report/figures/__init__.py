"""Figures as SVG text: no plotting library, light and dark by the page's own colours."""

from heldout.report.figures.heat_map import heat_map
from heldout.report.figures.histogram import distance_histogram
from heldout.report.figures.radar import radar_chart
from heldout.report.figures.roc import Curve, OperatingPoint, roc_chart
from heldout.report.figures.svg import standalone
from heldout.report.figures.sweep import Series, flag_fraction_chart

__all__ = [
    "Curve",
    "OperatingPoint",
    "Series",
    "distance_histogram",
    "flag_fraction_chart",
    "heat_map",
    "radar_chart",
    "roc_chart",
    "standalone",
]
