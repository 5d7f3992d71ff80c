"""Benchmark × corpus → matches."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.overlap.exact import ExactIndex, build_index
    from heldout.overlap.near import NearSearch
    from heldout.overlap.scan import scan

__all__ = ["ExactIndex", "NearSearch", "build_index", "scan"]

__getattr__ = load_on_first_use(__name__, __file__)
