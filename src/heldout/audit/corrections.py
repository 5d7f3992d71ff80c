"""What an audit leaves beside its claims: corrected scores, and what to do with each item."""

from __future__ import annotations

import json
from collections.abc import Sequence

from heldout.store import Run, write_atomic
from heldout.verdict import CorrectedScores, actions, correct_scores

CORRECTED = "corrected.json"


def write_corrections(run: Run, models: Sequence[str], *, seed: int) -> CorrectedScores:
    corrected = correct_scores(run, models, seed=seed)
    run.write_json(CORRECTED, corrected.as_json())
    rows = "".join(json.dumps(row) + "\n" for row in actions(run))
    write_atomic(run.path / "actions.jsonl", rows)
    return corrected


def renew_corrections(run: Run) -> None:
    """Once more for the models of the audit that made this run: people may have judged since."""
    if (run.path / CORRECTED).exists():
        models = [model["model"] for model in run.read_json(CORRECTED)["models"]]
        write_corrections(run, list(dict.fromkeys(models)), seed=run.manifest()["seed"])
