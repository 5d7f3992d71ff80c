"""Item scores, one file each, and the set-level test that all of them share."""

from heldout.detect.membership.loss import LOSS
from heldout.detect.membership.max_renyi import MAX_RENYI
from heldout.detect.membership.min_k import MIN_K
from heldout.detect.membership.min_k_plus_plus import MIN_K_PLUS_PLUS
from heldout.detect.membership.perplexity_ratio import PERPLEXITY_RATIO
from heldout.detect.membership.set_level import ItemDetector
from heldout.detect.membership.zlib_ratio import ZLIB

MEMBERSHIP: tuple[ItemDetector, ...] = (
    MIN_K, MIN_K_PLUS_PLUS, LOSS, ZLIB, MAX_RENYI, PERPLEXITY_RATIO,
)  # fmt: skip

__all__ = [
    "LOSS",
    "MAX_RENYI",
    "MEMBERSHIP",
    "MIN_K",
    "MIN_K_PLUS_PLUS",
    "PERPLEXITY_RATIO",
    "ZLIB",
    "ItemDetector",
]
