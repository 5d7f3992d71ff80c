"""zlib: log-probability per compressed byte of the answer (Carlini et al. 2021)."""

from __future__ import annotations

import zlib

import numpy as np

from heldout.detect.membership.set_level import ItemDetector
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables


def zlib_ratio(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    lengths = [
        len(zlib.compress((answer or "").encode("utf-8", "replace")))
        for answer in scored.frame["answer"]
    ]
    return np.asarray(scored.totals / np.asarray(lengths), dtype=np.float64)


ZLIB = ItemDetector("zlib", "log-probability per compressed byte of the answer", zlib_ratio)
