"""A synthesis with everything that people look at: the stages, then the page and the dataset card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.report import write_synthesis_report
from heldout.synth import Synthesis, SynthSettings, synth


def synthesize(
    settings: SynthSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    plan: bool = False,
    **values: Any,
) -> Synthesis:
    """Make verified, decontaminated items from figures of open literature, with page and dataset card.

    ``heldout.synth(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same synthesis: finished work is not done again.
        engine: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes to use; default: one per core.
        quiet: Show no progress.
        plan: Read and select figures only, and estimate requests, tokens, price and time of the rest.
        **values: Fields of ``SynthSettings``.

    Returns:
        The run, the funnel, and the tables of all stages as data frames.
    """
    made = synth(
        settings, out=out, engine=engine, workers=workers, quiet=quiet, plan=plan, **values
    )
    if not plan:
        with made.run.writing():
            write_synthesis_report(made.run)
    return made
