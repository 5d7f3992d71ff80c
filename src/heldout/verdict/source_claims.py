"""Claims about provenance: items from a source that the corpus names as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from heldout.detect import Finding
from heldout.errors import counted, percent
from heldout.verdict.claim import Claim
from heldout.verdict.rules import SOURCES, decide, rule_id
from heldout.verdict.text_claims import text_coverage

_KINDS = {"pmc": "article (PMC id)", "doi": "article (DOI)", "url": "address", "file": "file name"}
_ADVICE = (
    "report scores with and without these items (text_matches lists them, method provenance), or make "
    "splits that share no source (heldout sanitize --resplit, grouped by the source)"
)
_FILES = "look whether these files are the same: names of files repeat"


def source_claim(
    finding: Finding, text_matches: pl.DataFrame, items: int, scanned: Mapping[str, Any]
) -> Claim | None:
    """What ``finding`` (text-overlap by provenance) says of one corpus; None where no source is shared."""
    corpus = finding.cell.corpus
    rows = text_matches.filter(
        (pl.col("method") == "provenance") & (pl.col("corpus") == corpus)
    ).select("benchmark_id", "field", "evidence")
    if rows.is_empty():
        return None
    by_kind = {
        str(kind): part["benchmark_id"].n_unique()
        for (kind,), part in rows.group_by("field", maintain_order=True)
    }
    named = rows["benchmark_id"].n_unique()
    sources = rows["evidence"].n_unique()
    article = any(kind != "file" for kind in by_kind)
    rule = decide(SOURCES, {"an article or address is named": article})
    kinds = ", ".join(
        f"{count:,} by {_KINDS.get(kind, kind)}" for kind, count in sorted(by_kind.items())
    )
    return Claim(
        id=f"source/{corpus}",
        cell=finding.cell,
        sentence=(
            f"{counted(named, 'item', 'items')} of {items:,} ({percent(named / max(1, items))}) of "
            f"{finding.cell.benchmark} come from a source that {corpus} names, too: {kinds}; "
            f"{counted(sources, 'source', 'sources')}. That is one origin, and no copy by itself."
        ),
        status=rule.status,
        why=rule.reason,
        rule=rule_id(SOURCES, rule),
        findings=[finding.id],
        controls=[text_coverage(scanned)],
        next_step=_ADVICE if article else _FILES,
    )
