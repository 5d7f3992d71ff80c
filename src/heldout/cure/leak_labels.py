"""Former place of ``heldout.evidence.leak_labels``, for the rooms that still import it."""

from heldout.evidence import read_leak_labels

__all__ = ["read_leak_labels"]
