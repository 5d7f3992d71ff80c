"""summary.html and summary.pdf: the first screen alone, one page to send on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.report._reproduce import templates
from heldout.report.export.pdf import page_to_pdf
from heldout.store import write_atomic

ROWS = 6  # of the grid, so that it stays one page


def write_summary(folder: Path, record: Mapping[str, Any]) -> None:
    """``record``: what the report's first screen shows. The PDF comes last: it may lack a browser."""
    screen = record["screen"]
    grid = {**screen["grid"], "rows": screen["grid"]["rows"][:ROWS]}
    more = len(screen["grid"]["rows"]) - len(grid["rows"])
    footer = record["footer"]
    if more > 0:
        footer = f"{more:,} more corpora and models are in the report. {footer}"
    page = folder / "summary.html"
    text = (
        templates()
        .get_template("summary.html.j2")
        .render({**record, "footer": footer, "screen": {**screen, "grid": grid}, "scripts": []})
    )
    write_atomic(page, text)
    page_to_pdf(page, page.with_suffix(".pdf"))
