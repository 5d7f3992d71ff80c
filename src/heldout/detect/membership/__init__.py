"""Item scores, one file each, and the set-level test that all of them share."""

from heldout.detect.detector import Detector
from heldout.detect.membership.scores import (
    LOSS,
    MAX_RENYI,
    MIN_K,
    MIN_K_PLUS_PLUS,
    PERPLEXITY_RATIO,
    ZLIB,
)
from heldout.detect.membership.set_level import item_detector

MEMBERSHIP: tuple[Detector, ...] = (
    MIN_K,
    MIN_K_PLUS_PLUS,
    LOSS,
    ZLIB,
    MAX_RENYI,
    PERPLEXITY_RATIO,
)

__all__ = [
    "LOSS",
    "MAX_RENYI",
    "MEMBERSHIP",
    "MIN_K",
    "MIN_K_PLUS_PLUS",
    "PERPLEXITY_RATIO",
    "ZLIB",
    "item_detector",
]
