"""An encoder's scores: every measure of every task by item."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from heldout.evaluate.encoders.settings import EncoderTask
from heldout.store import Dropped


@dataclass
class TaskResult:
    """One task: measures (``top-1``, ``R@5``, …) by item, and what it was done with."""

    task: EncoderTask
    measures: dict[str, dict[str, float]]
    details: dict[str, Any] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)  # of this task
    remarks: list[str] = field(default_factory=list)  # why its scores may say nothing of pictures


@dataclass
class EncoderEvaluation:
    """What one encoder scores on one benchmark."""

    encoder: str  # identity
    name: str  # for people
    benchmark: str
    tasks: list[TaskResult]
    dropped: list[Dropped] = field(default_factory=list)  # of every task
    skipped: dict[str, str] = field(default_factory=dict)  # tasks that were not asked for, and why

    @property
    def items(self) -> pl.DataFrame:
        """One row per item, task and measure."""
        rows = [
            (item, task.task.value, measure, value)
            for task in self.tasks
            for measure, values in task.measures.items()
            for item, value in values.items()
        ]
        schema = {
            "benchmark_id": pl.String,
            "task": pl.String,
            "measure": pl.String,
            "value": pl.Float64,
        }
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame.insert_column(0, pl.lit(self.name).alias("encoder"))

    @property
    def summary(self) -> pl.DataFrame:
        """Means over items; with intervals and by leakage: ``heldout impact``."""
        grouped = self.items.group_by("encoder", "task", "measure", maintain_order=True)
        return grouped.agg(pl.len().alias("items"), pl.col("value").mean())

    def __repr__(self) -> str:
        tasks = ", ".join(task.task.value for task in self.tasks)
        return f"<EncoderEvaluation of {self.name}: {tasks or 'no task'}>"

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()
