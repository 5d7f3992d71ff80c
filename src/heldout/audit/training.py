"""A training with everything that people look at: the gate, the updates, the page, the model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.report import write_training_report
from heldout.train import TrainResult, TrainSettings, train


def train_model(
    settings: TrainSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    to: str = "",
    gate_from: str | Path | None = None,
    **values: Any,
) -> TrainResult:
    """Train a vision–language model behind the gate, with report and model card.

    ``heldout.train(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same training: finished updates are not made again.
        engine: Where the comparison runs: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes of the comparison; default: one per core.
        quiet: Show no progress.
        to: ``verl`` writes a configuration and data for verl in place of training here.
        gate_from: Run folder of a training whose comparisons with benchmarks are taken over where they
            are of the same rows and benchmarks.
        **values: Fields of ``TrainSettings``.

    Returns:
        The run, the trained checkpoint, what the gate said, and the tables as data frames.
    """
    made = train(
        settings, out=out, engine=engine, workers=workers, quiet=quiet, to=to, gate_from=gate_from, **values
    )  # fmt: skip
    if made.model is not None:
        with made.run.writing():
            write_training_report(made.run)
    return made
