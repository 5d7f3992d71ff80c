"""Where work runs: this process, this machine's cores, a Ray cluster."""

from heldout.engine.engine import Engine, Outcome
from heldout.engine.local import LocalEngine
from heldout.engine.open import open_engine
from heldout.engine.progress import progress
from heldout.engine.ray_engine import RayEngine

__all__ = ["Engine", "LocalEngine", "Outcome", "RayEngine", "open_engine", "progress"]
