"""Where work runs: this process, this machine's cores, a Ray cluster."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.engine.cores import usable_cores
    from heldout.engine.engine import PIECES, Engine, Outcome, Salvage, map_salvaged
    from heldout.engine.local import LocalEngine
    from heldout.engine.open import open_engine
    from heldout.engine.progress import progress
    from heldout.engine.ray_engine import RayEngine

__all__ = [
    "PIECES",
    "Engine",
    "LocalEngine",
    "Outcome",
    "RayEngine",
    "Salvage",
    "map_salvaged",
    "open_engine",
    "progress",
    "usable_cores",
]

__getattr__ = load_on_first_use(__name__, __file__)
