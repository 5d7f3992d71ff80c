"""Detectors: tables in, Finding out."""

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.image_nearness import adjust, image_nearness
from heldout.detect.image_overlap import image_overlap

__all__ = ["Cell", "Effect", "Finding", "Statistic", "adjust", "image_nearness", "image_overlap"]
