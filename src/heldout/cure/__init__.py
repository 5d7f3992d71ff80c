"""The cure: clean splits, new splits, training sets without the benchmarks, canaries in a release."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.cure.canary import (
        CanaryKey,
        CanarySettings,
        CanaryTest,
        CanaryVerdict,
        check_canary,
        false_positive_probability,
    )
    from heldout.cure.gate import GateResult, GateSettings, JunitCase, junit, write_gate
    from heldout.cure.planting import PlantedCanaries, plant_canaries
    from heldout.cure.policy import Policy, SanitizeSettings
    from heldout.cure.resplit import write_new_splits
    from heldout.cure.sanitize import CleanSplit, sanitize, write_clean_split

__all__ = [
    "CanaryKey",
    "CanarySettings",
    "CanaryTest",
    "CanaryVerdict",
    "CleanSplit",
    "GateResult",
    "GateSettings",
    "JunitCase",
    "PlantedCanaries",
    "Policy",
    "SanitizeSettings",
    "check_canary",
    "false_positive_probability",
    "junit",
    "plant_canaries",
    "sanitize",
    "write_clean_split",
    "write_gate",
    "write_new_splits",
]

__getattr__ = load_on_first_use(__name__, __file__)
