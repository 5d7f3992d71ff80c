"""What is printed from a dark screen comes out dark on white, in every page and figure of ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import heldout.report
from heldout.report._reproduce import templates
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


def test_a_single_figure_has_its_text_beside_it(browser: Any) -> None:
    """Below it, in a narrow column, the card is so high that a page is left half empty for it."""
    style = templates().get_template("style.css.j2").render()
    drawn = rate_chart([RateBar("a", 0.5)], title="Copies", label="share")
    text = "What it shows and how to read it. " * 20
    card = f'<figure class="card">{drawn}<p class="small">{text}</p><p class="files">a.svg</p></figure>'
    page = browser.new_page(viewport={"width": 700, "height": 900})
    page.emulate_media(media="print")
    page.set_content(f'<style>{style}</style><main><div class="figures">{card}</div></main>')
    picture, words = (
        page.locator(part).bounding_box() for part in (".card > svg", ".card > .small")
    )
    assert words["x"] >= picture["x"] + picture["width"] - 1
    assert words["width"] > 100
    page.close()
