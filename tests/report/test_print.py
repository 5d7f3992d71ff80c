"""What is printed from a dark screen comes out dark on white, in every page and figure of ours."""

from __future__ import annotations

import re
from pathlib import Path

import heldout.report
from heldout.report.figures import RateBar, rate_chart, standalone

TEMPLATES = Path(heldout.report.__file__).parent / "templates"
DARK = re.compile(r"@media([^{]*)\(prefers-color-scheme: ?dark\)")


def test_dark_is_for_screens_alone() -> None:
    told = [path.read_text() for path in sorted(TEMPLATES.iterdir())]
    told.append(standalone(rate_chart([RateBar("a", 0.5)], title="Copies", label="share")))
    found = [medium for text in told for medium in DARK.findall(text)]
    assert len(found) == 3  # report, matrix, figures
    assert all(medium.strip() == "screen and" for medium in found)


def test_what_backgrounds_say_is_printed_and_no_table_is_cut_off() -> None:
    style = (TEMPLATES / "style.css.j2").read_text().partition("@media print")[2]
    kept = re.search(r"([^}]*)\{[^}]*print-color-adjust: exact", style)
    assert kept is not None and {".bar i", ".tag"} <= {one.strip() for one in kept[1].split(",")}
    assert ".scroll { overflow: visible; }" in style
