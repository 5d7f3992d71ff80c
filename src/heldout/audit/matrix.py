"""The matrix of several runs: benchmarks × corpora, within one data set and across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from heldout.errors import InputError
from heldout.overlap import Audited, leakage_matrix, read_matches
from heldout.store import Run


def matrix_of(runs: Sequence[Run], datasets: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Rates of every run's cells; a benchmark and a corpus of one folder are one data set.

    ``datasets`` (name of a benchmark or corpus → its data set) says otherwise.
    """
    audited: list[Audited] = []
    family: dict[str, str] = {}
    cells: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        one, sources = _audited(run)
        audited.append(one)
        for corpus in one.corpora:
            other = cells.setdefault((one.benchmark, corpus, one.encoder), run)
            if other is not run:
                raise InputError(
                    f"{other.path} and {run.path} both compare '{one.benchmark}' with '{corpus}' by "
                    f"the same methods: leave one of them out, or name the corpora apart"
                )
        for name, source in sources.items():
            family.setdefault(name, _folder(source))
    asked = dict(datasets or {})
    if unknown := sorted(set(asked) - set(family)):
        raise InputError(
            f"--dataset {unknown[0]}=…: no benchmark or corpus of these runs has that name; there "
            f"are {', '.join(sorted(family))}"
        )
    return leakage_matrix(audited, datasets=family | asked)


def _audited(run: Run) -> tuple[Audited, dict[str, str]]:
    manifest = run.manifest()
    stages = list(manifest["stages"].values())
    if not stages:
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    benchmark: dict[str, Any] = manifest["inputs"]["benchmark"]
    encoders = {stage["encoder"] for stage in stages if stage["encoder"]}
    audited = Audited(
        benchmark["name"],
        run.frame("items"),
        read_matches(run),
        [stage["corpus"] for stage in stages],
        "; ".join(sorted(encoders)),
    )
    sources = {stage["corpus"]: stage["source"] for stage in stages}
    return audited, {benchmark["name"]: benchmark["source"], **sources}


def _folder(source: str) -> str:
    """Where a source lies, without its selection: splits of one data set lie together."""
    path = Path(source.partition("#")[0])
    return str(path.parent.resolve() if path.suffix else path.resolve())
