"""Figures as PDF, for LaTeX: drawn by a browser that is there, or by cairosvg."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from heldout.errors import InputError, PrerequisiteError
from heldout.store import Run

PDF = "pdf"
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
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None and importlib.util.find_spec("cairosvg") is None:
        raise PrerequisiteError(
            "making PDF needs Chromium or Chrome on the path, or the package 'cairosvg'. Install it with: "
            "pip install cairosvg"
        )
    made = []
    for svg in drawn:
        made.append(folder / f"{svg.stem}.pdf")
        if browser is not None:
            _by_browser(browser, svg, made[-1])
        else:
            _by_cairo(svg, made[-1])
    return made


def _by_browser(browser: str, svg: Path, target: Path) -> None:
    text = svg.read_text()
    size = _SIZE.search(text)
    wide, high = size.groups() if size else ("640", "400")
    page = (
        f"<!doctype html><style>@page{{size:{wide}px {high}px;margin:0}}body{{margin:0}}"
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
            splitlines = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise PrerequisiteError(f"{browser} could not print {svg.name}: {' '.join(splitlines)}")
        shutil.copyfile(drawn, target)


def _by_cairo(svg: Path, target: Path) -> None:
    importlib.import_module("cairosvg").svg2pdf(url=str(svg), write_to=str(target))
