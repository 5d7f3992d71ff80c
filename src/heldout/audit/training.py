"""A training with everything that people look at: the gate, the updates, the page, the model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, find_preset, read_benchmark
from heldout.evaluate import builtin_suites, suite_benchmarks
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
    chosen = settings if settings is not None else TrainSettings.read(values)
    made = train(
        chosen,
        out=out,
        engine=engine,
        workers=workers,
        quiet=quiet,
        to=to,
        gate_from=gate_from,
        benchmarks=_benchmarks(chosen.against, quiet=quiet),
    )
    if made.model is not None:
        with made.run.writing():
            write_training_report(made.run)
    return made


def _benchmarks(against: tuple[str, ...], *, quiet: bool) -> list[Benchmark]:
    """What ``against`` names: benchmarks, and all benchmarks of every suite."""
    benchmarks: list[Benchmark] = []
    for name in against:
        benchmarks += (
            suite_benchmarks(name, quiet=quiet) if _is_suite(name) else [read_benchmark(name)]
        )
    return benchmarks


def _is_suite(name: str) -> bool:
    """A YAML file, or the name of a suite that comes with heldout. A path that exists comes first, and
    so does a benchmark of the same name: a suite of one benchmark holds what it does."""
    if Path(name).suffix in (".yaml", ".yml"):
        return True
    return not Path(name).exists() and find_preset(name) is None and name in builtin_suites()
