"""What a training mixture holds of a benchmark, source by source."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from heldout.corpus import Corpus, MixtureSource
from heldout.evidence import leaks
from heldout.store import Run

SOURCES = "sources.json"


def write_sources(run: Run, corpora: Sequence[Corpus]) -> None:
    """One record per source of a mixture: rows, weight, share of what training sees, and what leaked there."""
    hits = pl.col("image_hits") + pl.col("text_hits")
    leaked = leaks(run).filter(hits > 0).group_by("corpus").agg(pl.len(), hits.sum().alias("rows"))
    counts = {row["corpus"]: (row["len"], row["rows"]) for row in leaked.to_dicts()}
    stages = {stage["corpus"]: stage for stage in run.manifest()["stages"].values()}
    records = []
    for corpus in corpora:
        weight = corpus.weight if isinstance(corpus, MixtureSource) else 1.0
        rows = stages.get(corpus.name, {}).get("counts", {}).get("items", 0)
        items, copies = counts.get(corpus.name, (0, 0))
        records.append(
            {
                "name": corpus.name,
                "source": corpus.source,
                "weight": weight,
                "rows": rows,
                "seen": rows * weight,
                "leaked_items": items,
                "leaked_rows": copies,
                "exposures": copies * weight,
            }
        )
    total = sum(record["seen"] for record in records)
    for record in records:
        record["share"] = record["seen"] / total if total else 0.0
    run.write_json(SOURCES, {"sources": records})


def read_sources(run: Run) -> pl.DataFrame:
    """The sources of a mixture; empty where the run had none."""
    if not (run.path / SOURCES).exists():
        return pl.DataFrame()
    return pl.DataFrame(run.read_json(SOURCES)["sources"])
