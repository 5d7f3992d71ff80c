"""Every export by name."""

from __future__ import annotations

import html
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from heldout.errors import InputError, PrerequisiteError, blame_the_machine
from heldout.report.export._case import ExportCase, open_case
from heldout.report.export.bibtex import bibtex
from heldout.report.export.catalogues import conda, helm, hf_card
from heldout.report.export.every_eval_ever import every_eval_ever
from heldout.report.settings import PDF, ExportSettings
from heldout.store import Run, write_atomic

# Figures as PDF, for LaTeX: drawn by a browser that is there, or by cairosvg.


BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
)
_SIZE = re.compile(r'<svg width="([\d.]+)" height="([\d.]+)"')
_SECONDS = 120


def figures_to_pdf(run: Run, out: Path | None = None) -> list[Path]:
    """One PDF per SVG of the report, beside it or in ``out``; pages are as large as the figures."""
    drawn = sorted((run.path / "figures").glob("*.svg"))
    if not drawn:
        raise InputError(f"{run.path} has no figures: only calibrations and models make some")
    folder = out if out is not None else run.path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    browser = next((program for name in BROWSERS if (program := shutil.which(name))), None)
    if browser is None and importlib.util.find_spec("cairosvg") is None:
        raise PrerequisiteError(
            "making PDF needs Chromium or Chrome on the path, or the package 'cairosvg'. Install it with: "
            "pip install cairosvg"
        )
    paths = []
    for svg in drawn:
        paths.append(folder / f"{svg.stem}.pdf")
        if browser is not None:
            _by_browser(browser, svg, paths[-1])
        else:
            _by_cairo(svg, paths[-1])
    return paths


def _by_browser(browser: str, svg: Path, target: Path) -> None:
    text = svg.read_text()
    size = _SIZE.search(text)
    width, height = size.groups() if size else ("640", "400")
    page = (
        f"<!doctype html><style>@page{{size:{width}px {height}px;margin:0}}body{{margin:0}}"
        f"svg{{display:block}}</style>{text}"
    )
    with tempfile.TemporaryDirectory() as folder:
        source, drawn = Path(folder) / "figure.html", Path(folder) / "figure.pdf"
        source.write_text(page)
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={drawn}",
            source.as_uri(),
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # browsers refuse to sandbox root
            command.insert(1, "--no-sandbox")
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode or not drawn.exists():
            last_line = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise PrerequisiteError(f"{browser} could not print {svg.name}: {' '.join(last_line)}")
        shutil.copyfile(drawn, target)


def _by_cairo(svg: Path, target: Path) -> None:
    importlib.import_module("cairosvg").svg2pdf(url=str(svg), write_to=str(target))


class ExportFormat(NamedTuple):
    """``make`` gives the text, or several by name; ``next_step`` is what is left to do with it."""

    ending: str
    make: Callable[[ExportCase], str | dict[str, str]]
    next_step: str


FORMATS = {
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
    """Write a finished run as other people's catalogues take it.

    Args:
        run: A run with claims and findings.
        to: The setting ``to``: ``hf-card``, ``conda``, ``helm``, ``every-eval-ever``, ``bibtex`` or ``pdf``.
        out: File to write; a folder where there are several documents. Default: nothing is written,
            but for ``pdf``, which goes beside the figures.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.report.ExportSettings``.

    Returns:
        The documents, the files that were written, and what is left to do with them.

    Raises:
        InputError: The format or the model does not exist, or ``out`` cannot be written.
    """
    named = values if to is None else {"to": to, **values}
    settings = ExportSettings.choose(settings, named)
    to, model = settings.to, settings.model
    opened = run if isinstance(run, Run) else Run.open(run)
    target = Path(out) if out is not None else None
    if to == PDF:
        return Export({}, tuple(figures_to_pdf(opened, target)), "")
    documents = FORMATS[to].make(open_case(opened))
    if isinstance(documents, str):
        if model is not None:
            raise InputError(
                f"model: goes with the format every-eval-ever; {to} is about all models"
            )
        documents = {to: documents}
    elif model is not None:
        if model not in documents:
            raise InputError(f"model {model}: this run has scores of {', '.join(documents)}")
        documents = {model: documents[model]}
    written = _write(documents, target, FORMATS[to].ending) if target is not None else ()
    return Export(documents, written, FORMATS[to].next_step)


def _write(documents: Mapping[str, str], out: Path, ending: str) -> tuple[Path, ...]:
    paths = {
        (out if len(documents) == 1 else out / f"{_file_name(name)}.{ending}"): text
        for name, text in documents.items()
    }
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written: {error.strerror}") from error
    return tuple(paths)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "model"
