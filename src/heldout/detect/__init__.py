"""Detectors: tables in, Finding out."""

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.image_overlap import image_overlap
from heldout.detect.outcome import NotTestable, Outcome
from heldout.detect.registry import Detector, detectors, run_detectors
from heldout.detect.settings import Settings
from heldout.detect.tables import ScoreTables

__all__ = [
    "Cell",
    "Detector",
    "Effect",
    "Finding",
    "NotTestable",
    "Outcome",
    "ScoreTables",
    "Settings",
    "Statistic",
    "detectors",
    "image_overlap",
    "run_detectors",
]
