"""Every export by name, and the badge."""

from __future__ import annotations

import contextlib
import functools
import html
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heldout.errors import InputError, blame_the_machine, percent
from heldout.report._cell_words import is_pair, nothing_found
from heldout.report._pdf import figures_to_pdf
from heldout.report.export._case import ExportCase, open_case
from heldout.report.export.bibtex import bibtex
from heldout.report.export.catalogues import conda, helm, hf_card
from heldout.report.export.every_eval_ever import every_eval_ever
from heldout.report.export.tables import (
    ExportTable,
    tables_of,
    write_csv,
    write_json,
    write_markdown,
    write_workbook,
)
from heldout.report.settings import PDF, TABLE_FORMATS, WORKBOOK, ExportSettings
from heldout.store import Run, file_name, read_document, replacing, write_atomic

# A badge for a README: one line of SVG that says what the claims of a run come to.


_COLOURS = {"leaked": "#b3261e", "open": "#8a5b00", "clean": "#1a6d42", "none": "#5b6675"}
_NAME = "held out?"
_SIGN = 6.6  # pixels of an average letter at 11 px; textLength makes it fit whatever the font
_PAD = 8


def badge(case: ExportCase) -> str:
    """An SVG that stands by itself: no font, script or address is loaded."""
    words, kind = summarized(case)
    left, right = (round(len(text) * _SIGN) + 2 * _PAD for text in (_NAME, words))
    title = escape(f"{case.name}: {words}")

    def text(content: str, start: int, width: int) -> str:
        return (
            f'<text x="{start + width / 2:g}" y="14" textLength="{width - 2 * _PAD}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(content)}</text>'
        )

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3a434f"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[kind]}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{text(_NAME, 0, left)}{text(words, left, right)}</g></svg>\n"
    )


def summarized(case: ExportCase) -> tuple[str, str]:
    """(what the badge says, the kind of its colour): the worst that was found."""
    single = [cell for cell in case.cells if not is_pair(cell)]
    rates = [cell["leak_rate"] for cell in single if cell["leak_rate"]]
    worst = max(rates, key=lambda rate: rate["value"], default=None)
    seen = [cell for cell in single if cell["model"] is not None and cell["status"] == "survives"]
    parts = []
    if worst and worst["leaked"]:
        parts.append(f"{percent(worst['value'], 0)} leaked")
    if seen:
        parts.append(f"seen by {len(seen)} {'model' if len(seen) == 1 else 'models'}")
    if parts:
        return ", ".join(parts), "leaked"
    statuses = {cell["status"] for cell in single}
    open_ = [cell for cell in single if cell["status"] == "qualified"]
    if open_ and all(nothing_found(cell) for cell in open_):
        return "nothing found, search incomplete", "open"
    if open_:
        return "not settled", "open"
    if "clean" in statuses:
        return "no leak found", "clean"
    return "not tested", "none"


class ExportFormat(NamedTuple):
    """``make`` gives the text, or several by name; ``next_step`` is what is left to do with it."""

    ending: str
    make: Callable[[ExportCase], str | dict[str, str]]
    next_step: str


FORMATS = {
    "badge": ExportFormat("svg", badge, "show it in a README: ![held out?](badge.svg)"),
    "hf-card": ExportFormat("md", hf_card, "paste it into the README.md of the dataset"),
    "conda": ExportFormat(
        "csv",
        conda,
        "fill in Reference, and add the rows by a pull request to CONDA-Workshop/"
        "Data-Contamination-Database",
    ),
    "helm": ExportFormat("yaml", helm, "add the points to HELM's contamination.yaml"),
    "every-eval-ever": ExportFormat(
        "json",
        every_eval_ever,
        "fill in who you are under source_metadata, and submit each record to the "
        "datastore evaleval/EEE_datastore as data/BENCHMARK/DEVELOPER/MODEL/UUID.json",
    ),
    "bibtex": ExportFormat("bib", bibtex, "cite what you used"),
}


@dataclass(frozen=True)
class Export:
    """What ``heldout.export`` returns.

    Args:
        documents: The texts by name; one of them is called as the format where it is about all models.
        written: The files that were written.
        next_step: What is left to do with it.
    """

    documents: Mapping[str, str]
    written: tuple[Path, ...]
    next_step: str

    @property
    def text(self) -> str:
        """All documents, one after the other."""
        return "\n".join(self.documents.values())

    def __repr__(self) -> str:
        files = ", ".join(map(str, self.written)) or "not written"
        return f"<Export of {', '.join(self.documents)}: {files}>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def export(
    run: str | Path | Run,
    to: str | None = None,
    *,
    out: str | Path | None = None,
    settings: ExportSettings | None = None,
    **values: Any,
) -> Export:
    """Write a finished run as spreadsheets, scripts and other people's catalogues take it.

    Args:
        run: A run with claims and findings, or the output folder of an audit.
        to: The setting ``to``: ``csv``, ``xlsx``, ``json`` or ``md`` for claims, findings, leaks and matches;
            ``badge``; ``hf-card``, ``conda``, ``helm``, ``every-eval-ever``, ``bibtex``; ``pdf`` for figures.
        out: File to write; a folder where there are several documents. Default: nothing is written,
            but for ``pdf``, which goes beside the figures, and ``xlsx``, which goes into the run folder.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.report.ExportSettings``.

    Returns:
        The documents, the files that were written, and what is left to do with them.

    Raises:
        InputError: The format or the model does not exist, or ``out`` cannot be written.
    """
    named = values if to is None else {"to": to, **values}
    settings = ExportSettings.choose(settings, named)
    to = settings.to
    runs = [run] if isinstance(run, Run) else _runs(Path(run))
    target = Path(out) if out is not None else None
    if settings.table is not None and to not in TABLE_FORMATS:
        raise InputError(f"table: goes with {', '.join(TABLE_FORMATS)}; {to} has no tables")
    if to == PDF:
        pdfs = [path for opened in runs for path in figures_to_pdf(opened, target)]
        return Export({}, tuple(pdfs), "")
    cases = [open_case(opened) for opened in runs]
    if to in TABLE_FORMATS:
        return _tables(cases, settings, target, run.path if isinstance(run, Run) else Path(run))
    documents: dict[str, str] = {}
    for case in cases:
        folder = f"{case.name}/" if len(cases) > 1 else ""
        mine = _documents(case, to, settings.model)
        documents |= {f"{folder}{name}": text for name, text in mine.items()}
    written = _write(documents, target, FORMATS[to].ending) if target is not None else ()
    return Export(documents, written, FORMATS[to].next_step)


def _runs(folder: Path) -> list[Run]:
    """The run of a folder, or those of all benchmarks of an audit."""
    verdict = folder / "verdict.json"
    if (folder / "manifest.json").exists() or not verdict.exists():
        return [Run.open(folder)]
    names = read_document(verdict)["corrected"]
    runs = [Run.open(path.parent) for path in sorted(folder.glob("*/manifest.json"))]
    mine = [run for run in runs if _benchmark(run) in names]
    if not mine:
        raise InputError(f"{folder} has a verdict and no run folder of its benchmarks")
    return sorted(mine, key=lambda run: list(names).index(_benchmark(run)))


def _benchmark(run: Run) -> str:
    return str(run.manifest().get("inputs", {}).get("benchmark", {}).get("name", ""))


def _tables(
    cases: Sequence[ExportCase], settings: ExportSettings, out: Path | None, folder: Path
) -> Export:
    tables = tables_of(cases, settings.table)
    if settings.to == WORKBOOK:
        path = out if out is not None else folder / "export.xlsx"
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            cut = write_workbook(tables, path)
        left = ", ".join(f"{count:,} rows of {name}" for name, count in cut.items())
        more = f"{left} are left out, since no sheet holds them: csv and json have all"
        return Export({}, (path,), more if left else "")
    writers = _writers(tables, settings)
    if out is None:
        return Export({name: _in_memory(write) for name, write in writers.items()}, (), "")
    single = len(writers) == 1
    paths = {name: out if single else out / f"{file_name(name)}.{settings.to}" for name in writers}
    with _writing(out):
        for name, write in writers.items():
            with (
                replacing(paths[name]) as temporary,
                temporary.open("w", encoding="utf-8", newline="") as file,
            ):
                write(file)
    return Export(WrittenDocuments(paths), tuple(paths.values()), "")


def _writers(
    tables: Mapping[str, ExportTable], settings: ExportSettings
) -> dict[str, Callable[[TextIO], None]]:
    if settings.to == "csv":
        return {name: functools.partial(write_csv, table) for name, table in tables.items()}
    write = write_json if settings.to == "json" else write_markdown
    return {settings.table or "tables": functools.partial(write, tables)}


def _in_memory(write: Callable[[TextIO], None]) -> str:
    file = io.StringIO(newline="")
    write(file)
    return file.getvalue()


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written: {error.strerror}") from error


class WrittenDocuments(Mapping[str, str]):
    """Texts by name that are read from their files when they are asked for: tables may exceed memory."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = paths

    def __getitem__(self, name: str) -> str:
        return self.paths[name].read_text(encoding="utf-8")

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def _documents(case: ExportCase, to: str, model: str | None) -> dict[str, str]:
    documents = FORMATS[to].make(case)
    if isinstance(documents, str):
        if model is not None:
            raise InputError(
                f"model: goes with the format every-eval-ever; {to} is about all models"
            )
        return {to: documents}
    if model is not None:
        if model not in documents:
            raise InputError(f"model {model}: this run has scores of {', '.join(documents)}")
        return {model: documents[model]}
    return documents


def _write(documents: Mapping[str, str], out: Path, ending: str) -> tuple[Path, ...]:
    paths = {
        (out if len(documents) == 1 else out / f"{file_name(name)}.{ending}"): text
        for name, text in documents.items()
    }
    with _writing(out):
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
    return tuple(paths)
