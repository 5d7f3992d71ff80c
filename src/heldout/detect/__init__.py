"""Detectors: tables in, Finding out."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.detect.finding import Cell, Effect, Finding, Statistic
    from heldout.detect.image_nearness import adjust, image_nearness
    from heldout.detect.image_overlap import image_overlap
    from heldout.detect.joined_leakage import joined_leakage
    from heldout.detect.outcome import NotTestable, Outcome
    from heldout.detect.registry import Detector, detectors, run_detectors
    from heldout.detect.settings import Settings
    from heldout.detect.tables import ScoreTables
    from heldout.detect.text_overlap import text_overlap

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
    "adjust",
    "detectors",
    "image_nearness",
    "image_overlap",
    "joined_leakage",
    "run_detectors",
    "text_overlap",
]

__getattr__ = load_on_first_use(__name__, __file__)
