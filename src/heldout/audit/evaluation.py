"""An evaluation with everything that people look at: the answers, the tables, then the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.evaluate import EvaluateSettings, Evaluation, evaluate
from heldout.report import write_evaluation_report


def evaluate_suite(
    settings: EvaluateSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    **values: Any,
) -> Evaluation:
    """Evaluate models on a suite of benchmarks, with a page.

    ``heldout.evaluate(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same suite: replies that are there are not asked for again.
        engine: ``local``, ``ray`` or ``ray://HOST:PORT``: where local models run.
        workers: Workers that each hold the model; default: this process alone, or the whole cluster.
        quiet: Show no progress.
        **values: Fields of ``EvaluateSettings``.

    Returns:
        Accuracies, disagreements with published scorers, ranks and paired comparisons.
    """
    made = evaluate(settings, out=out, engine=engine, workers=workers, quiet=quiet, **values)
    with made.run.writing():
        write_evaluation_report(made.run)
    return made
