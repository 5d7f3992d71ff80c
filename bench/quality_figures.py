"""What a row of the quality table is: a figure with its interval, and how it compares with a stored one.

Shares carry the outcome of every item, so that two commits are compared on the same items: the mark says that more
items changed one way than chance explains (exact sign test at .05). Where the items are not the same, or are what the
search itself chose (precision), Fisher's exact test decides. CPU seconds are compared on machines of one kind alone,
and differ from ``NOISE`` on. Sizes are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from scipy.stats import beta, binomtest, fisher_exact

NOISE = (
    0.15  # of CPU seconds: runs of one commit on one machine differed by up to so much (quality.md)
)
LEVEL = 0.05

HIGHER, LOWER, NEITHER = "higher", "lower", ""
ARROWS = {HIGHER: " ↑", LOWER: " ↓", NEITHER: ""}  # which way is better


@dataclass(frozen=True)
class Figure:
    """One row. ``unit``: share, words, s, ms, MB or nothing for a plain count; ``better``: which way is better."""

    section: str
    set: str
    name: str
    value: float | None = None
    unit: str = ""
    better: str = NEITHER
    low: float | None = None
    high: float | None = None
    of: int = 0
    outcomes: str = ""  # of every item in order, 1 where it counts: bits as hexadecimal digits
    said: str = ""  # a figure in words: the status of a claim, counts by relation

    @property
    def key(self) -> tuple[str, str, str]:
        return self.section, self.set, self.name

    def as_json(self) -> dict[str, Any]:
        """Without what is as by default."""
        default = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Figure:
        return cls(**row)


def share(
    section: str,
    set_: str,
    name: str,
    outcomes: Sequence[bool],
    better: str = HIGHER,
    said: str = "",
    chosen: bool = False,
) -> Figure:
    """How many of the items count, with the exact 95 % interval; without items there is no value. ``chosen``: the items
    are what the search found, other ones in another commit, and their outcomes are not kept."""
    hits, total = sum(outcomes), len(outcomes)
    if not total:
        return Figure(section, set_, name, None, "share", better, said=said)
    low, high = interval(hits, total)
    digits = "1" + "".join("01"[bool(hit)] for hit in outcomes)
    bits = "" if chosen else f"{int(digits, 2):x}"
    return Figure(section, set_, name, hits / total, "share", better, low, high, total, bits, said)


def interval(hits: int, total: int) -> tuple[float, float]:
    """Clopper and Pearson's, 95 %."""
    low = float(beta.ppf(0.025, hits, total - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, total - hits)) if hits < total else 1.0
    return low, high


def outcomes_of(figure: Figure) -> list[bool]:
    return [bit == "1" for bit in f"{int(figure.outcomes, 16):b}"[1:]] if figure.outcomes else []


def is_outside_noise(now: Figure, then: Figure, same_machine: bool) -> bool:
    """Does the figure differ from the stored one by more than chance?"""
    if now.value is None or then.value is None:
        return now.value is not then.value or now.said != then.said
    if now.unit == "share":
        ours, theirs = outcomes_of(now), outcomes_of(then)
        if ours and len(ours) == len(theirs):
            gained = sum(a and not b for a, b in zip(ours, theirs, strict=True))
            lost = sum(b and not a for a, b in zip(ours, theirs, strict=True))
            return bool(gained + lost) and binomtest(gained, gained + lost).pvalue < LEVEL
        hits = [
            (round(each.value * each.of), each.of) for each in (now, then) if each.value is not None
        ]
        return bool(fisher_exact([[hit, total - hit] for hit, total in hits]).pvalue < LEVEL)
    if now.unit in ("s", "ms"):
        return same_machine and abs(now.value - then.value) > NOISE * then.value
    return now.value != then.value


def difference(now: Figure, then: Figure | None, same_machine: bool) -> tuple[str, str, str]:
    """The stored value, the difference, and its mark: "better", "worse", "differs" or nothing."""
    if then is None:
        return "", "", "new"
    if now.value is None or then.value is None:
        return shown(then), "", "differs" if is_outside_noise(now, then, same_machine) else ""
    step = now.value - then.value
    mark = ""
    if is_outside_noise(now, then, same_machine):
        higher = HIGHER if step > 0 else LOWER
        mark = "differs" if not now.better else "better" if now.better == higher else "worse"
    if step == 0 and now.said != then.said:
        mark = mark or "differs"
    return shown(then), f"{_number(step, now.unit, '+')}" if step else "", mark


def shown(figure: Figure) -> str:
    if figure.value is None:
        return figure.said or "–"
    number = _number(figure.value, figure.unit)
    return f"{number} ({figure.said})" if figure.said else number


def _number(value: float, unit: str, sign: str = "") -> str:
    if unit == "share":
        return f"{value:{sign}.3f}"
    digits = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:{sign},.{digits}f}"


def table(
    figures: Iterable[Figure], stored: dict[tuple[str, str, str], Figure], same_machine: bool
) -> list[str]:
    """Markdown: a heading per section, a row per figure, the stored one beside it."""
    lines: list[str] = []
    section = None
    for figure in figures:
        if figure.section != section:
            section = figure.section
            lines += ["", f"## {section.capitalize()}", ""]
            lines += ["| set | figure | of | now | 95 % | stored | difference | |"]
            lines += ["|---|---|--:|--:|---|--:|--:|---|"]
        then, step, mark = difference(figure, stored.get(figure.key), same_machine)
        unit = "" if figure.unit in ("share", "") else f", {figure.unit}"
        bounds = "" if figure.low is None else f"[{figure.low:.3f}, {figure.high:.3f}]"
        count = f"{figure.of:,}" if figure.of else ""
        lines.append(
            f"| {figure.set} | {figure.name}{unit}{ARROWS[figure.better]} | {count} | {shown(figure)} | {bounds} "
            f"| {then} | {step} | {mark} |"
        )
    return lines
