"""The few marks our figures are made of, in the colours of the page they stand on.

Whatever is written comes from corpora and command lines, so every text goes through ``escape``; the
result is ``Markup``, which the report's templates take as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from markupsafe import Markup

INK = "var(--ink, #1c2430)"
SOFT = "var(--soft, #5b6675)"
LINE = "var(--line, #dfe3e8)"
CARD = "var(--card, #ffffff)"
ALARM = "var(--survives, #b3261e)"
# Middle tones that stand out from white and from near black alike, told apart without colour
# vision by their dashes as well.
SERIES = ("#2f80d0", "#cf6a16", "#22936a", "#a65bc0", "#8a7a10", "#c4547a")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 2")
OPENED = 44.0  # where the first name below a title stands; the next ones 17 lower each
_FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif'
_VARIABLE = re.compile(r"var\(--[a-z]+, (#[0-9a-f]{6})\)")
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_PALETTE = (
    ":root{--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;--card:#ffffff;--survives:#b3261e}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#9aa5b3;--line:#313943;"
    "--card:#1b2027;--survives:#ff8a80}}"
)


def number(value: float) -> str:
    """A coordinate: two decimals are a fiftieth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: float = 12,
    fill: str = INK,
    weight: int = 400,
    turn: float = 0.0,
    halo: bool = False,
) -> str:
    extra = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
    # A halo of the page's colour keeps words readable where lines run behind them.
    outline = f";paint-order:stroke;stroke:{CARD};stroke-width:4px" if halo else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" font-size="{number(size)}" '
        f'font-weight="{weight}"{extra} style="fill:{fill}{outline}">{escape(words)}</text>'
    )


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    stroke: str = LINE,
    width: float = 1,
    dash: str = "",
) -> str:
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
        f'style="stroke:{stroke};stroke-width:{number(width)};stroke-dasharray:{dash or "none"}"/>'
    )


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str,
    opacity: float = 1.0,
    round: float = 0,
    tip: str = "",
) -> str:
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" '
        f'height="{number(max(height, 0))}" rx="{number(round)}" '
        f'style="fill:{fill};fill-opacity:{number(opacity)}"{_ended("rect", tip)}'
    )


def circle(
    x: float, y: float, radius: float, *, fill: str, stroke: str = "none", tip: str = ""
) -> str:
    return (
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" '
        f'style="fill:{fill};stroke:{stroke};stroke-width:1.5"{_ended("circle", tip)}'
    )


def _ended(mark: str, tip: str) -> str:
    """What a pointer that rests on the mark is told: browsers show the title of a mark."""
    return f"><title>{escape(tip)}</title></{mark}>" if tip else "/>"


def path(
    points: Iterable[tuple[float, float]],
    *,
    stroke: str = "none",
    fill: str = "none",
    width: float = 2,
    dash: str = "",
    opacity: float = 1.0,
    closed: bool = False,
) -> str:
    steps = " ".join(
        f"{'L' if index else 'M'}{number(x)} {number(y)}" for index, (x, y) in enumerate(points)
    )
    return (
        f'<path d="{steps}{" Z" if closed else ""}" style="fill:{fill};fill-opacity:'
        f"{number(opacity)};stroke:{stroke};stroke-width:{number(width)};stroke-linejoin:round;"
        f'stroke-dasharray:{dash or "none"}"/>'
    )


def legend(entries: Sequence[tuple[str, str, str]], x: float, y: float) -> list[str]:
    """Lines of (name, colour, dash), one below the other."""
    marks: list[str] = []
    for index, (name, colour, dash) in enumerate(entries):
        at = y + 17 * index
        marks.append(line(x, at - 4, x + 24, at - 4, stroke=colour, width=2.5, dash=dash))
        marks.append(text(x + 31, at, name, halo=True))
    return marks


def series(place: int) -> tuple[str, str]:
    """Colour and dash of the n-th line; they come again where there are many."""
    return SERIES[place % len(SERIES)], DASHES[place % len(DASHES)]


def opening(title: str, names: Sequence[str]) -> list[str]:
    """How a figure of named lines begins: its title, and below it which line is whose."""
    entries = [(name, *series(place)) for place, name in enumerate(names)]
    return [text(12, 20, title, size=14, weight=600), *legend(entries, 12, OPENED)]


def figure(title: str, width: float, height: float, marks: Iterable[str]) -> Markup:
    """A whole figure; ``title`` is what a screen reader says."""
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'role="img" aria-label="{escape(title)}" font-family="{escape(_FONT)}" '
        f'style="width:100%;max-width:{number(width)}px;height:auto">'
        f"<title>{escape(title)}</title>{''.join(marks)}</svg>"
    )


def for_paper(drawn: str) -> str:
    """As a file for papers and slides: white paper and plain colours, which every program reads."""
    plain = _VARIABLE.sub(r"\1", drawn)
    head, _, rest = plain.partition("</title>")
    wide, high = _SIZE.search(head).groups()  # type: ignore[union-attr]
    head = head.replace("<svg ", f'<svg width="{wide}" height="{high}" ', 1)
    paper = '<rect width="100%" height="100%" style="fill:#ffffff"/>'
    return f"{head}</title>{paper}{rest}\n"


def standalone(drawn: str) -> str:
    """The same figure as a file of its own: it brings its colours and its paper."""
    head, _, rest = drawn.partition("</title>")
    paper = f'<rect width="100%" height="100%" style="fill:{CARD}"/>'
    return f"{head}</title><style>{_PALETTE}</style>{paper}{rest}\n"
