"""loss: the mean log-probability of the answer's tokens (Yeom et al. 2018)."""

from __future__ import annotations

from heldout.detect.membership.set_level import ItemDetector
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables


def loss(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    return scored.means


LOSS = ItemDetector("loss", "mean log-probability of the answer", loss)
