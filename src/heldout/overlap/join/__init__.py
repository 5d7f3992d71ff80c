"""Exact joins: every query against every corpus row, streamed once, recall 1."""

from heldout.overlap.join.hamming import HammingIndex
from heldout.overlap.join.hits import Hits, merge, select
from heldout.overlap.join.index import JoinIndex
from heldout.overlap.join.stream import join

__all__ = ["HammingIndex", "Hits", "JoinIndex", "join", "merge", "select"]
