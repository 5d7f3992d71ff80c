"""Benchmark × corpus → matches."""

from heldout.overlap.exact import ExactIndex, build_index
from heldout.overlap.near import NearSearch
from heldout.overlap.scan import scan

__all__ = ["ExactIndex", "NearSearch", "build_index", "scan"]
