"""The steps of a training: a journal that survives a kill, and the table made of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.store import Run, make_table

#: Columns of ``tables/steps.parquet``, by TRL's names for them.
LOGGED = {
    "loss": "loss",
    "grad_norm": "gradient",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
    "reward": "reward",
    "reward_std": "reward_spread",
    "frac_reward_zero_std": "constant_groups",
    "kl": "kl",
    "entropy": "entropy",
    "format": "format_rate",
    "completions/mean_length": "reply_tokens",
    "completions/clipped_ratio": "cut_replies",
    "mean_token_accuracy": "token_accuracy",
}


class StepJournal:
    """One JSON line per update. After a kill it holds every update up to it, and the last checkpoint says
    from which one on they are made again."""

    def __init__(self, folder: Path, name: str = "steps.jsonl") -> None:
        self.path = folder / name

    def restart_after(self, step: int) -> None:
        """Forget what will be done again."""
        kept = [row for row in self.rows() if row["step"] <= step]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        temporary.replace(self.path)

    def add(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # the line that a kill cut off
                break
        return found


def step_row(step: int, logged: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """One update from what the trainer logged; what it did not log is empty."""
    row: dict[str, Any] = {"step": step, "seconds": round(seconds, 3)}
    for theirs, ours in LOGGED.items():
        value = logged.get(theirs)
        number = float(value) if isinstance(value, int | float) else math.nan
        row[ours] = number if math.isfinite(number) else None
    return row


def write_steps(run: Run, journal: StepJournal) -> None:
    """``tables/steps.parquet`` from the journal."""
    run.write_table("steps", make_table("steps", journal.rows()))


def write_replies(run: Run, journal: StepJournal) -> None:
    """``tables/replies.parquet``: the first group of replies of every update, with their rewards."""
    run.write_table("replies", make_table("replies", journal.rows()))
