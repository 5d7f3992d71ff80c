"""Scores from a model that runs here, through transformers. See docs/scoring.md."""

from heldout.model.local.local_model import LocalModel

__all__ = ["LocalModel"]
