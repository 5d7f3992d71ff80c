"""summary.html and summary.pdf: the first screen alone, one page to send on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.report._pdf import page_to_pdf
from heldout.report._reproduce import templates
from heldout.store import write_atomic

ROWS = 6  # of the grid, so that it stays readable on one page
SCALES = (1, 0.92, 0.85, 0.78, 0.7, 0.6, 0.5)  # of the print, until all of it is on one page
_PAGE = re.compile(rb"/Type */Page\b")


def write_summary(folder: Path, record: Mapping[str, Any]) -> None:
    """``record``: what the report's first screen shows. The PDF comes last: it may lack a browser."""
    screen = record["screen"]
    grid = {**screen["grid"], "rows": screen["grid"]["rows"][:ROWS]}
    more = len(screen["grid"]["rows"]) - len(grid["rows"])
    footer = record["footer"]
    if more > 0:
        footer = f"{more:,} more corpora and models are in the report. {footer}"
    page = folder / "summary.html"
    template = templates().get_template("summary.html.j2")
    shown = {**record, "footer": footer, "screen": {**screen, "grid": grid}, "scripts": []}
    for scale in SCALES:
        write_atomic(page, template.render({**shown, "scale": scale}))
        if printed_pages(page_to_pdf(page, page.with_suffix(".pdf"))) <= 1:
            return


def printed_pages(pdf: Path) -> int:
    """Of a PDF that a browser wrote: these name their pages in the clear."""
    return len(_PAGE.findall(pdf.read_bytes()))
