"""Checks of a model's scores before any test: with scores that cannot be trusted nothing is testable."""

from __future__ import annotations

from heldout.detect.tables import ScoreTables
from heldout.model import SelfCheck as SelfCheck
from heldout.model import check_scores


def self_checks(tables: ScoreTables, model: str) -> list[SelfCheck]:
    return check_scores(tables.scored(model), len(tables.items), tables.identities.get(model, {}))
