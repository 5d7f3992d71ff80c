"""Detectors that need nothing but answers: the same item asked in two ways."""

from heldout.detect.behaviour import (
    choice_confusion,
    circular,
    multimodal_leakage,
    option_order,
    slot_guess,
    twin_consistency,
    twin_drop,
)

#: those whose findings make claims; each is a claim of its own, because they ask different things
CLAIMING = tuple(
    module_type.NAME
    for module_type in (
        twin_drop,
        option_order,
        circular,
        choice_confusion,
        multimodal_leakage,
        slot_guess,
    )
)

__all__ = [
    "CLAIMING",
    "choice_confusion",
    "circular",
    "multimodal_leakage",
    "option_order",
    "slot_guess",
    "twin_consistency",
    "twin_drop",
]
