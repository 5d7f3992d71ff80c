"""The matrix of several runs: benchmarks × corpora, within one data set and across."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from heldout.errors import InputError
from heldout.overlap import MatrixRun, condensed_matches, leakage_matrix
from heldout.settings import Settings
from heldout.store import Run


class MatrixSettings(Settings):
    """Settings of ``heldout matrix``."""

    datasets: dict[str, str] = Field(default_factory=dict)
    """The data set that a benchmark or corpus is part of, by its name; default: its folder."""


def leak_rates(
    runs: Sequence[Run | str | Path], *, settings: MatrixSettings | None = None, **values: Any
) -> pl.DataFrame:
    """How much of each benchmark is in each corpus, over several runs.

    ``heldout.matrix(...)`` is this function, too.

    Args:
        runs: Runs of ``heldout.overlap``, or their folders.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.audit.MatrixSettings``.

    Returns:
        One row per benchmark, corpus, unit and kind of leak, with the rate and its interval.
    """
    named = MatrixSettings.choose(settings, values).datasets
    searches: list[MatrixRun] = []
    family: dict[str, str] = {}
    cells: dict[tuple[str, str, str], Run] = {}
    for run in (Run.open(run) if isinstance(run, str | Path) else run for run in runs):
        searched, sources = _searched(run)
        searches.append(searched)
        for corpus in searched.corpora:
            other = cells.setdefault((searched.benchmark, corpus, searched.encoder), run)
            if other is not run:
                raise InputError(
                    f"{other.path} and {run.path} both compare '{searched.benchmark}' with '{corpus}' by "
                    f"the same methods: leave one of them out, or give the corpora different names"
                )
        for name, source in sources.items():
            family.setdefault(name, _folder(source))
    if unknown := sorted(set(named) - set(family)):
        raise InputError(
            f"datasets: {unknown[0]}: no benchmark or corpus of these runs has that name; there "
            f"are {', '.join(sorted(family))}"
        )
    return leakage_matrix(searches, datasets=family | named)


def _searched(run: Run) -> tuple[MatrixRun, dict[str, str]]:
    manifest = run.manifest()
    stages = list(manifest["stages"].values())
    if not stages:
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    benchmark: dict[str, Any] = manifest["inputs"]["benchmark"]
    encoders = {stage["encoder"] for stage in stages if stage["encoder"]}
    searched = MatrixRun(
        benchmark["name"],
        run.frame("items"),
        condensed_matches(run).table,
        [stage["corpus"] for stage in stages],
        "; ".join(sorted(encoders)),
    )
    sources = {stage["corpus"]: stage["source"] for stage in stages}
    return searched, {benchmark["name"]: benchmark["source"], **sources}


def _folder(source: str) -> str:
    """Where a source lies, without its selection: splits of one data set lie together."""
    path = Path(source.partition("#")[0])
    return str(path.parent.resolve() if path.suffix else path.resolve())
