"""Detectors: tables in, Finding out."""

from heldout.detect.exact_overlap import exact_overlap
from heldout.detect.finding import Cell, Effect, Finding, Statistic

__all__ = ["Cell", "Effect", "Finding", "Statistic", "exact_overlap"]
