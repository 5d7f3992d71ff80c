"""PDF through a browser that is there: figures for LaTeX, and the summary for mail."""

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
from heldout.store import Run, opened

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


def find_browser() -> str | None:
    return next((program for name in BROWSERS if (program := shutil.which(name))), None)


def page_to_pdf(page: Path, target: Path) -> Path:
    """``page`` as a browser prints it. PrerequisiteError where there is none."""
    browser = find_browser()
    if browser is None:
        raise PrerequisiteError(
            f"{page} is written, and its PDF is not: that needs Chromium or Chrome on the path. Install one, or "
            "open the page and print it"
        )
    _print(browser, page, target)
    return target


def figures_to_pdf(run: Run, out: Path | None = None) -> list[Path]:
    """One PDF per SVG of the report, beside it or in ``out``; pages are as large as the figures."""
    drawn = sorted((run.path / "figures").glob("*.svg"))
    if not drawn:
        raise InputError(f"{run.path} has no figures: only calibrations and models make some")
    folder = out if out is not None else run.path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    browser = find_browser()
    if browser is None and importlib.util.find_spec("cairosvg") is None:
        raise PrerequisiteError(
            "making PDF needs Chromium or Chrome on the path, or the package 'cairosvg'. Install it with: "
            "pip install cairosvg"
        )
    paths = []
    for svg in drawn:
        paths.append(folder / f"{svg.stem}.pdf")
        if browser is not None:
            _figure(browser, svg, paths[-1])
        else:
            importlib.import_module("cairosvg").svg2pdf(url=str(svg), write_to=str(paths[-1]))
    return paths


def _figure(browser: str, svg: Path, target: Path) -> None:
    with opened(svg, "r", encoding="utf-8") as file:
        text = file.read()
    size = _SIZE.search(text)
    width, height = size.groups() if size else ("640", "400")
    page = (
        f"<!doctype html><style>@page{{size:{width}px {height}px;margin:0}}body{{margin:0}}"
        f"svg{{display:block}}</style>{text}"
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{svg.stem}.html"
        source.write_text(page)
        _print(browser, source, target)


def _print(browser: str, page: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "page.pdf"
        options = ["headless", "disable-gpu", "no-pdf-header-footer"]
        options += [f"user-data-dir={folder}/profile", f"print-to-pdf={drawn}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # browsers refuse to sandbox root
            options.append("no-sandbox")
        command = [browser, *(f"--{option}" for option in options), page.absolute().as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode or not drawn.exists():
            last_line = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise PrerequisiteError(f"{browser} could not print {page.name}: {' '.join(last_line)}")
        shutil.copyfile(drawn, target)
