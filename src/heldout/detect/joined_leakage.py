"""joined-leakage: what of each item leaked into a corpus, picture and words taken together.

A picture without its question changes little; a question without its picture may change nothing; all
three together hand the answer over. One row per item and corpus says which it is, one finding per
corpus counts them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from heldout.detect.finding import Cell, Finding, rate_finding
from heldout.evidence import PROVEN, Modality, Rung

NAME = "joined-leakage"
_LEAKED = (Modality.FULL, Modality.IMAGE_AND_QUESTION, Modality.IMAGE_ONLY, Modality.TEXT_ONLY)
LISTED = 50  # items named in a finding; the table leaks has them all


def joined_leakage(
    items: pl.DataFrame, leaked: pl.DataFrame, *, benchmark: str, corpus: str
) -> Finding:
    """``leaked`` is ``evidence.leaks`` of the run. An item counts where its leak is proven: by its picture,
    or by question and answer word for word."""
    here = leaked.filter(pl.col("corpus") == corpus)
    proven = here.filter(pl.col("rung").is_in(PROVEN))
    counted = set(proven["benchmark_id"])
    return rate_finding(
        [float(one in counted) for one in items["benchmark_id"]],
        items["cluster"].to_list(),
        statistic="leaked items",
        effect="leak rate per item, by picture or words",
        id=f"{NAME}/{corpus}",
        detector=NAME,
        cell=Cell(benchmark=benchmark, corpus=corpus),
        unit="items",
        blind_to=["what neither the image search nor the text search can see"],
        table="leaks",
        details={
            "by_modality": {
                **{modality: _count(proven, "modality", modality) for modality in _LEAKED},
                Modality.SOURCE_ONLY: _count(here, "modality", Modality.SOURCE_ONLY),
            },
            "by_rung": {rung: _count(here, "rung", rung) for rung in reversed(Rung)},
            "by_label_relation": {
                name: _count(proven, "label_relation", name)
                for name in ("same", "different", "conflicting", "unknown")
            },
            **_several(here),
        },
    )


def _several(here: pl.DataFrame) -> dict[str, Any]:
    """Items that stand in more than one corpus item: the ones to look at first."""
    total = pl.col("image_hits") + pl.col("text_hits") + pl.col("source_hits")
    many = here.filter((pl.col("image_hits") > 1) | (pl.col("text_hits") > 1)).sort(
        total, descending=True, maintain_order=True
    )
    return {
        "multi_hits": len(many),
        "multi_hit_items": many["benchmark_id"].to_list()[:LISTED],
    }


def _count(table: pl.DataFrame, column: str, value: str) -> int:
    return int((table[column] == value).sum())
