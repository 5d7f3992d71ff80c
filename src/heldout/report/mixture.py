"""What a training mixture holds of a benchmark, source by source: sources.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from heldout.corpus import Corpus, MixtureSource
from heldout.evidence import PROVEN, leak_batches, leaks
from heldout.store import Run

SOURCES = "sources.json"
_PROVEN = [rung.value for rung in PROVEN]


def note_sources(run: Run, corpora: Sequence[Corpus]) -> None:
    """Keep which sources a mixture has, and how often training sees each of their rows."""
    records = [
        {
            "name": corpus.name,
            "source": corpus.source,
            "weight": corpus.weight if isinstance(corpus, MixtureSource) else 1.0,
        }
        for corpus in corpora
    ]
    run.write_json(SOURCES, {"sources": records})


def forget_sources(run: Run) -> None:
    """A search without a recipe has none."""
    run.remove(SOURCES)


def count_sources(run: Run) -> None:
    """Count what leaked into each source, as people judged it: the items and rows that verdict and gate count."""
    if not (run.path / SOURCES).exists():
        return
    stages = {stage["corpus"]: stage for stage in run.manifest()["stages"].values()}
    proven = pl.col("rung").is_in(_PROVEN)
    items = dict(leaks(run).filter(proven).group_by("corpus").len().iter_rows())
    keys = ["corpus", "corpus_id"]
    listed = [frame.filter(proven).select(keys).unique() for frame in leak_batches(run)]
    rows = dict(pl.concat(listed).unique().group_by("corpus").len().iter_rows()) if listed else {}
    records = [
        _counted(record, stages, items, rows) for record in run.read_json(SOURCES)["sources"]
    ]
    total = sum(record["seen"] for record in records)
    for record in records:
        record["share"] = record["seen"] / total if total else 0.0
    run.write_json(SOURCES, {"sources": records})


def _counted(
    record: dict[str, Any],
    stages: dict[str, dict[str, Any]],
    items: dict[str, int],
    rows: dict[str, int],
) -> dict[str, Any]:
    name, weight = record["name"], record["weight"]
    there = stages.get(name, {}).get("counts", {}).get("items", 0)
    return {
        "name": name,
        "source": record["source"],
        "weight": weight,
        "rows": there,
        "seen": there * weight,
        "leaked_items": items.get(name, 0),
        "leaked_rows": rows.get(name, 0),
        "exposures": rows.get(name, 0) * weight,
    }


def read_sources(run: Run) -> pl.DataFrame:
    """The sources of a mixture, in the order of the recipe; empty where the run had none."""
    if not (run.path / SOURCES).exists():
        return pl.DataFrame()
    frame = pl.DataFrame(run.read_json(SOURCES)["sources"])
    # Not counted yet: the run was killed before it concluded.
    return frame if "exposures" in frame.columns else pl.DataFrame()


def worst_first(sources: pl.DataFrame) -> list[dict[str, Any]]:
    """Those whose leaked rows training sees most often first."""
    if not len(sources):
        return []
    return sources.sort("exposures", descending=True, maintain_order=True).to_dicts()
