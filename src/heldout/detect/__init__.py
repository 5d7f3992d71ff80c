"""Detectors: tables in, Finding out."""

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.image_nearness import adjust, image_nearness
from heldout.detect.image_overlap import image_overlap
from heldout.detect.joined_leakage import joined_leakage, leaks
from heldout.detect.text_kinds import KINDS, count_kinds, text_kinds
from heldout.detect.text_overlap import text_overlap

__all__ = [
    "KINDS",
    "Cell",
    "Effect",
    "Finding",
    "Statistic",
    "adjust",
    "count_kinds",
    "image_nearness",
    "image_overlap",
    "joined_leakage",
    "leaks",
    "text_kinds",
    "text_overlap",
]
