"""A model under test: what it gave to every item, and where that came from."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.model.recorded import Recorded, read_recorded, save_scores

__all__ = ["Recorded", "read_recorded", "save_scores"]

__getattr__ = load_on_first_use(__name__, __file__)
