"""A badge for a README: one line of SVG that says what the claims of a run come to."""

from __future__ import annotations

from html import escape

from heldout.errors import percent
from heldout.report._first_screen import is_pair
from heldout.report.export._case import ExportCase

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
    if "qualified" in statuses:
        return "not settled", "open"
    if "clean" in statuses:
        return "no leak found", "clean"
    return "not tested", "none"
