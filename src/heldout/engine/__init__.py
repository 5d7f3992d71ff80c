"""Where work runs: this process, this machine's cores, a Ray cluster."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.engine._isolated import isolated
    from heldout.engine.cluster import ClusterNode, ClusterReport, ClusterSettings, check_cluster
    from heldout.engine.engine import (
        PIECES,
        Engine,
        Kind,
        Outcome,
        Salvage,
        Work,
        map_salvaged,
        usable_cores,
        work_together,
    )
    from heldout.engine.local import LocalEngine, open_engine
    from heldout.engine.progress import ProgressStep, progress
    from heldout.engine.ray_engine import RayEngine
    from heldout.engine.underway import moved, underway

__all__ = [
    "PIECES",
    "ClusterNode",
    "ClusterReport",
    "ClusterSettings",
    "Engine",
    "Kind",
    "LocalEngine",
    "Outcome",
    "ProgressStep",
    "RayEngine",
    "Salvage",
    "Work",
    "check_cluster",
    "isolated",
    "map_salvaged",
    "moved",
    "open_engine",
    "progress",
    "underway",
    "usable_cores",
    "work_together",
]

__getattr__ = load_on_first_use(__name__, __file__)
