"""Benchmark × corpus → matches."""

from heldout.overlap.exact import ExactIndex, build_index
from heldout.overlap.scan import scan

__all__ = ["ExactIndex", "build_index", "scan"]
