"""Claims, leaks, matches and judgements as tables for spreadsheets and scripts: CSV, Excel, JSON, Markdown.

Words of a benchmark or a corpus are untrusted, and spreadsheets obey a text that begins like a formula: in CSV
such a text gets an apostrophe before it, and in Excel files texts are stored as texts.
"""

from __future__ import annotations

import functools
import itertools
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from heldout.errors import InputError, require
from heldout.evidence import OPEN, PROVEN, Rung, leaks
from heldout.overlap import (
    Pair,
    match_batches,
    match_subject,
    read_text_matches,
    text_pairs,
    text_subject,
)
from heldout.report._next_steps import with_paths
from heldout.report._summaries import as_row
from heldout.report.export._case import ExportCase
from heldout.report.settings import TABLE_NAMES
from heldout.store import ITEM, MATCH, TEXT, TWIN, Run, current, empty_table, log_path
from heldout.verdict import ACTIONS, PLAIN, rung_words

SCHEMA_VERSION = 1
MARKDOWN_ROWS = 200  # of one table; the other formats have all
_CELL = 32_000  # characters that a cell of Excel holds, and some less
#: signs by which a formula begins, wide ones and those behind spaces as well
_FORMULA = (
    "^(\\s|[=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}])"
)


@dataclass(frozen=True)
class ExportTable:
    """A table that may exceed memory: every call of ``batches`` reads it once more, in pieces."""

    batches: Callable[[], Iterator[pl.DataFrame]]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.batches()


def tables_of(cases: Sequence[ExportCase], only: str | None) -> dict[str, ExportTable]:
    """The tables by name, each with the benchmark in its first column; ``only``: this one alone."""
    tables = {}
    for name in (only,) if only is not None else TABLE_NAMES:
        mine = [case for case in cases if _HAS[name](case.run)]
        if mine:
            tables[name] = ExportTable(functools.partial(_batches, name, mine))
        elif only is not None:
            raise InputError(f"table {only}: this run has none; it has {', '.join(_there(cases))}")
    return tables


def _batches(name: str, cases: Sequence[ExportCase]) -> Iterator[pl.DataFrame]:
    for case in cases:
        for frame in _MAKERS[name](case):
            yield frame.select(
                pl.lit(case.name, pl.String).alias("benchmark"), pl.all().exclude("benchmark")
            )


def _there(cases: Sequence[ExportCase]) -> list[str]:
    return list(tables_of(cases, None))


_NUMBERS = {
    "finding": pl.String,
    "measure": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "unit": pl.String,
    "groups": pl.Int64,
    "p": pl.Float64,
}


def _claims(case: ExportCase) -> Iterator[pl.DataFrame]:
    """One row per claim, with the numbers of the finding that leads it; the table findings has all."""
    known = {finding["id"]: finding for finding in case.findings}
    rows = [
        {
            "claim": claim["id"],
            "corpus": cell["corpus"],
            "model": cell["model"],
            "status": claim["status"],
            "in words": PLAIN.get(claim["status"], claim["status"]),
            **_numbers(leading := _leading(claim, known)),
            "corrected p": _corrected_p(claim, leading),
            "sentence": claim["sentence"],
            "why": claim["why"],
            "next step": with_paths(claim["next_step"], case.run),
        }
        for cell in case.cells
        for claim in cell["claims"]
    ]
    about = ("claim", "corpus", "model", "status", "in words")
    words = ("sentence", "why", "next step")
    schema = {
        **dict.fromkeys(about, pl.String),
        **_NUMBERS,
        "corrected p": pl.Float64,
        **dict.fromkeys(words, pl.String),
    }
    yield pl.DataFrame(rows, schema=schema)


def _findings(case: ExportCase) -> Iterator[pl.DataFrame]:
    """Every finding, once for each claim that rests on it."""
    resting: dict[str, list[Mapping[str, Any]]] = {}
    for cell in case.cells:
        for claim in cell["claims"]:
            for finding in claim["findings"]:
                resting.setdefault(finding, []).append(claim)
    rows = [
        {
            "claim": claim.get("id"),
            "detector": finding["detector"],
            "corpus": finding["cell"]["corpus"],
            "model": finding["cell"]["model"],
            **_numbers(finding),
            "p within the claim": finding["p_adjusted"],
        }
        for finding in case.findings
        for claim in resting.get(finding["id"], [{}])
    ]
    about = ("claim", "detector", "corpus", "model")
    schema = {**dict.fromkeys(about, pl.String), **_NUMBERS, "p within the claim": pl.Float64}
    yield pl.DataFrame(rows, schema=schema)


def _leading(
    claim: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The finding that a claim stands on: the smallest corrected p, or the first where nothing was tested."""
    findings = [known[name] for name in claim["findings"] if name in known]
    tested = [finding for finding in findings if finding["p_adjusted"] is not None]
    if not tested:
        return findings[0] if findings else None
    return min(tested, key=lambda f: (f["p_adjusted"], -abs(f["effect"]["value"])))


def _corrected_p(claim: Mapping[str, Any], leading: Mapping[str, Any] | None) -> float | None:
    """Over all claims that were planned together; within the claim where it is about a corpus."""
    if claim["cell"]["model"] is None:
        return leading["p_adjusted"] if leading is not None else None
    corrected: float | None = claim.get("corrected_p")
    return corrected


def _numbers(finding: Mapping[str, Any] | None) -> dict[str, Any]:
    if finding is None:
        return dict.fromkeys(_NUMBERS)
    effect = finding["effect"]
    return {
        "finding": finding["id"],
        "measure": effect["name"],
        "value": effect["value"],
        "low": effect["low"],
        "high": effect["high"],
        "n": finding["n"],
        "unit": finding["unit"],
        "groups": finding["clusters"],
        "p": finding["p"],
    }


def _asked(run: Run) -> pl.DataFrame:
    return run.frame("items").select("benchmark_id", "question", "answer")


#: the columns of leaks that tell it in words stand before those that are named as in tables/leaks.parquet
_READ_FIRST = ("benchmark_id", "question", "answer", "corpus", "leaked", "in words", "what to do")


def _leaks(case: ExportCase) -> Iterator[pl.DataFrame]:
    # Whether a corpus has answers to compare is known of each corpus.
    compared = {cell["corpus"]: cell.get("answers_compared", True) for cell in case.cells}
    words = [
        (corpus, rung.value, str(rung_words(rung, answers_compared=compared.get(corpus, True))))
        for corpus in leaks(case.run)["corpus"].unique()
        for rung in Rung
    ]
    names = pl.DataFrame(
        words, schema=dict.fromkeys(("corpus", "rung", "in words"), pl.String), orient="row"
    )
    todo = {rung.value: ACTIONS.get(rung, "") for rung in Rung}
    # The table also has what is no leak, and why it was looked at.
    leaked = {
        rung.value: "yes" if rung in PROVEN else "undecided" if rung in OPEN else "no"
        for rung in Rung
    }
    positions = case.run.frame("items").select("benchmark_id", "position")
    rung = pl.col("rung")
    yield (
        leaks(case.run)
        .join(names, on=["corpus", "rung"], how="left", maintain_order="left")
        .with_columns(
            rung.replace_strict(todo, return_dtype=pl.String).alias("what to do"),
            rung.replace_strict(leaked, return_dtype=pl.String).alias("leaked"),
        )
        .join(_asked(case.run), on="benchmark_id", how="left", maintain_order="left")
        .join(positions, on="benchmark_id", how="left", maintain_order="left")
        .sort("position", "corpus")
        .select(*_READ_FIRST, pl.exclude(*_READ_FIRST, "position"))
    )


def _matches(case: ExportCase) -> Iterator[pl.DataFrame]:
    fields = ("corpus_question", "corpus_answer", "corpus_text")
    empty = [pl.DataFrame(empty_table("matches"))]  # has the columns
    for frame in itertools.chain(empty, match_batches(case.run)):
        yield _with_evidence(case.run, frame, fields)


def _texts(case: ExportCase) -> Iterator[pl.DataFrame]:
    texts = read_text_matches(case.run)
    yield _with_evidence(case.run, texts, ("benchmark_text", "corpus_text"))


_ABOUT = ("benchmark_id", "corpus", "corpus_id")
_JUDGED = ("kind", *_ABOUT, "rater", "verdict", "note", "ratings", "seconds", "time", "subject")


def _judgements(case: ExportCase) -> Iterator[pl.DataFrame]:
    """The judgements in force, with the item and the corpus item that they are about."""
    rows = []
    for kind, pairs_of in ((MATCH, _match_pairs), (TEXT, _text_pairs), (TWIN, None), (ITEM, None)):
        judgements = current(case.run.path, kind)
        pairs = pairs_of(case.run) if judgements and pairs_of is not None else {}
        for (subject, _), judgement in sorted(judgements.items()):
            about = pairs.get(subject, (None if pairs_of is not None else subject, None, None))
            ratings = ", ".join(f"{name} {value}" for name, value in judgement.ratings.items())
            row = {**vars(judgement), **dict(zip(_ABOUT, about, strict=True)), "ratings": ratings}
            rows.append([row[name] for name in _JUDGED])
    schema = {name: pl.Float64 if name == "seconds" else pl.String for name in _JUDGED}
    yield pl.DataFrame(rows, schema=schema, orient="row")


def _match_pairs(run: Run) -> dict[str, Pair]:
    """The first item and corpus item that show each pair of pictures."""
    pairs: dict[str, Pair] = {}
    for frame in match_batches(run) if _HAS["matches"](run) else ():
        for row in frame.iter_rows(named=True):
            subject = match_subject(json.loads(row["evidence"]), row["corpus"], row["corpus_id"])
            pairs.setdefault(subject, (row["benchmark_id"], row["corpus"], row["corpus_id"]))
    return pairs


def _text_pairs(run: Run) -> dict[str, Pair]:
    if not _HAS["texts"](run):
        return {}
    items = {row["benchmark_id"]: row for row in run.read_table("items").to_pylist()}
    matches = text_pairs(run.read_table("text_matches").to_pylist())
    return {text_subject(items[pair[0]], rows): pair for pair, rows in reversed(matches.items())}


_MAKERS: Mapping[str, Callable[[ExportCase], Iterator[pl.DataFrame]]] = {
    "claims": _claims,
    "findings": _findings,
    "leaks": _leaks,
    "matches": _matches,
    "texts": _texts,
    "judgements": _judgements,
}
_HAS: Mapping[str, Callable[[Run], bool]] = {
    "claims": lambda _: True,
    "findings": lambda _: True,
    "leaks": lambda run: _HAS["matches"](run) or _HAS["texts"](run),
    "matches": lambda run: run.table_path("matches").exists(),
    "texts": lambda run: run.table_path("text_matches").exists(),
    "judgements": lambda run: log_path(run.path).exists(),
}


def _with_evidence(run: Run, frame: pl.DataFrame, fields: Iterable[str]) -> pl.DataFrame:
    """The words of both sides as columns; the rest of the evidence (digests, paths, warps) stays in the run."""
    words = frame.with_columns(
        pl.col("evidence").str.json_path_match(f"$.{name}").alias(name) for name in fields
    ).drop("evidence")
    return words.join(_asked(run), on="benchmark_id", how="left", maintain_order="left")


def write_csv(table: ExportTable, file: TextIO) -> None:
    for number, frame in enumerate(table):
        harmless = frame.with_columns(_harmless(pl.col(pl.String)))
        file.write(harmless.write_csv(include_header=not number))


def _harmless(text: pl.Expr) -> pl.Expr:
    """No spreadsheet reads it as a formula."""
    return pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()


def write_json(tables: Mapping[str, ExportTable], file: TextIO) -> None:
    """One object, as ``json.dumps`` writes it with an indent of 1."""
    file.write(f'{{\n "schema_version": {SCHEMA_VERSION}')
    for name, table in tables.items():
        file.write(f",\n {json.dumps(name)}: [")
        separator = "\n"
        for frame in table:
            for row in frame.iter_rows(named=True):
                text = json.dumps(row, ensure_ascii=False, indent=1)
                file.write(separator + textwrap.indent(text, "  "))
                separator = ",\n"
        file.write("]" if separator == "\n" else "\n ]")
    file.write("\n}\n")


def write_markdown(tables: Mapping[str, ExportTable], file: TextIO) -> None:
    """One section per table; a long one ends with how many rows are left out."""
    for number, (name, table) in enumerate(tables.items()):
        file.write("\n\n" if number else "")
        left = MARKDOWN_ROWS
        lines: list[str] = []
        more = 0
        for frame in table:
            if not lines:
                lines += [as_row(*frame.columns), "|" + " --- |" * frame.width]
            lines += [as_row(*map(_written, row)) for row in frame.head(left).iter_rows()]
            more += max(0, len(frame) - left)
            left = max(0, left - len(frame))
        if more:
            lines += ["", f"and {more:,} more: csv and json have all"]
        file.write("\n".join((f"## {name}", "", *lines)))
    file.write("\n")


def _written(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


_SHEET = 1_048_575  # rows that a sheet of Excel holds below its head


def write_workbook(tables: Mapping[str, ExportTable], path: Path) -> dict[str, int]:
    """An Excel file with one sheet per table; returns how many rows of which are left out, because no sheet holds
    them."""
    require("xlsxwriter", "xlsx", "writing Excel files")
    import xlsxwriter

    options = {
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "constant_memory": True,
    }
    cut: dict[str, int] = {}
    with xlsxwriter.Workbook(str(path), options) as book:
        bold = book.add_format({"bold": True})
        for name, table in tables.items():
            sheet = book.add_worksheet(name)
            sheet.freeze_panes(1, 0)
            rows = width = 0
            for frame in table:
                if not width:
                    width = frame.width
                    sheet.write_row(0, 0, frame.columns, bold)
                room = frame.head(_SHEET - rows)
                cut[name] = cut.get(name, 0) + len(frame) - len(room)
                for number, row in enumerate(room.iter_rows(), rows + 1):
                    for place, value in enumerate(row):
                        if isinstance(value, str):
                            sheet.write_string(number, place, value[:_CELL])
                        elif value is not None:
                            sheet.write(number, place, value)
                rows += len(room)
            if width and rows:
                sheet.autofilter(0, 0, rows, width - 1)
    return {name: count for name, count in cut.items() if count}
