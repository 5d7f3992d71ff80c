"""A model under test: what it gave to every item, and where that came from."""

from heldout.model.recorded import Recorded, read_recorded, save_scores

__all__ = ["Recorded", "read_recorded", "save_scores"]
