"""Claims, leaks and matches as tables for spreadsheets and scripts: CSV, Excel, JSON, Markdown.

Words of a benchmark or a corpus are untrusted, and spreadsheets obey a text that begins like a formula: in CSV
such a text gets an apostrophe before it, and in Excel files texts are stored as texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from heldout.errors import require
from heldout.evidence import Rung, leaks
from heldout.overlap import read_matches, read_text_matches
from heldout.report._summaries import as_row
from heldout.report.export._case import ExportCase
from heldout.report.settings import TABLE_NAMES
from heldout.store import Run
from heldout.verdict import ACTIONS, PLAIN, rung_words

SCHEMA_VERSION = 1
MARKDOWN_ROWS = 200  # of one table; the other formats have all
_CELL = 32_000  # characters that a cell of Excel holds, and some less
#: signs by which a formula begins, wide ones and those behind spaces as well
_FORMULA = (
    "^(\\s|[=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}])"
)


def tables_of(cases: Sequence[ExportCase], only: str | None) -> dict[str, pl.DataFrame]:
    """The tables by name, each with the benchmark in its first column; ``only``: this one alone."""
    makers = {"claims": _claims, "leaks": _leaks, "matches": _matches, "texts": _texts}
    tables = {}
    for name in (only,) if only is not None else TABLE_NAMES:
        frames = [
            frame.select(pl.lit(case.name).alias("benchmark"), pl.all().exclude("benchmark"))
            for case in cases
            if (frame := makers[name](case)) is not None
        ]
        if frames or only is not None:
            tables[name] = pl.concat(frames, how="diagonal") if frames else pl.DataFrame()
    return tables


def _claims(case: ExportCase) -> pl.DataFrame:
    rows = [
        {
            "claim": claim["id"],
            "corpus": cell["corpus"],
            "model": cell["model"],
            "status": claim["status"],
            "in words": PLAIN.get(claim["status"], claim["status"]),
            "sentence": claim["sentence"],
            "why": claim["why"],
            "next step": claim["next_step"],
        }
        for cell in case.cells
        for claim in cell["claims"]
    ]
    names = ("claim", "corpus", "model", "status", "in words", "sentence", "why", "next step")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def _asked(run: Run) -> pl.DataFrame:
    return run.frame("items").select("benchmark_id", "question", "answer")


def _leaks(case: ExportCase) -> pl.DataFrame | None:
    if not _searched(case.run):
        return None
    rungs = {rung.value: str(rung_words(rung)) for rung in Rung}
    todo = {rung.value: ACTIONS.get(rung, "") for rung in Rung}
    positions = case.run.frame("items").select("benchmark_id", "position")
    rung = pl.col("rung")
    return (
        leaks(case.run)
        .with_columns(
            rung.replace_strict(rungs, return_dtype=pl.String).alias("in words"),
            rung.replace_strict(todo, return_dtype=pl.String).alias("what to do"),
        )
        .join(_asked(case.run), on="benchmark_id", how="left", maintain_order="left")
        .join(positions, on="benchmark_id", how="left", maintain_order="left")
        .sort("position", "corpus")
        .drop("position")
    )


def _searched(run: Run) -> bool:
    return run.table_path("matches").exists() or run.table_path("text_matches").exists()


def _matches(case: ExportCase) -> pl.DataFrame | None:
    if not case.run.table_path("matches").exists():
        return None
    return _with_evidence(
        case.run, read_matches(case.run), ("corpus_question", "corpus_answer", "corpus_text")
    )


def _texts(case: ExportCase) -> pl.DataFrame | None:
    if not case.run.table_path("text_matches").exists():
        return None
    texts = read_text_matches(case.run)
    return _with_evidence(case.run, texts, ("benchmark_text", "corpus_text"))


def _with_evidence(run: Run, frame: pl.DataFrame, fields: Iterable[str]) -> pl.DataFrame:
    """The words of both sides as columns; the rest of the evidence (digests, paths, warps) stays in the run."""
    words = frame.with_columns(
        pl.col("evidence").str.json_path_match(f"$.{name}").alias(name) for name in fields
    ).drop("evidence")
    return words.join(_asked(run), on="benchmark_id", how="left", maintain_order="left")


def as_csv(frame: pl.DataFrame) -> str:
    return frame.with_columns(_harmless(pl.col(pl.String))).write_csv()


def _harmless(text: pl.Expr) -> pl.Expr:
    """No spreadsheet reads it as a formula."""
    return pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()


def as_json(tables: Mapping[str, pl.DataFrame]) -> str:
    record: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    record |= {name: frame.to_dicts() for name, frame in tables.items()}
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def as_markdown(tables: Mapping[str, pl.DataFrame]) -> str:
    """One section per table; a long one ends with how many rows are left out."""
    parts = []
    for name, frame in tables.items():
        shown = frame.head(MARKDOWN_ROWS)
        lines = [as_row(*shown.columns), "|" + " --- |" * shown.width]
        lines += [as_row(*map(_written, row)) for row in shown.iter_rows()]
        if len(frame) > len(shown):
            lines += ["", f"and {len(frame) - len(shown):,} more: csv, xlsx and json have all"]
        parts.append("\n".join((f"## {name}", "", *lines)))
    return "\n\n".join(parts) + "\n"


def _written(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def write_workbook(tables: Mapping[str, pl.DataFrame], path: Path) -> Path:
    """An Excel file with one sheet per table."""
    require("xlsxwriter", "xlsx", "writing Excel files")
    import xlsxwriter

    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(str(path), options) as book:
        bold = book.add_format({"bold": True})
        for name, frame in tables.items():
            sheet = book.add_worksheet(name)
            sheet.freeze_panes(1, 0)
            sheet.write_row(0, 0, frame.columns, bold)
            for number, row in enumerate(frame.iter_rows(), 1):
                for place, value in enumerate(row):
                    if isinstance(value, str):
                        sheet.write_string(number, place, value[:_CELL])
                    elif value is not None:
                        sheet.write(number, place, value)
            if frame.width and len(frame):
                sheet.autofilter(0, 0, len(frame), frame.width - 1)
    return path
