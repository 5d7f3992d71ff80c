"""How `heldout detect` shows answers: both accuracies of every pair of forms, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from heldout.cli.show import console, plain
from heldout.detect import Finding


def show_behaviour(findings: Sequence[Finding]) -> None:
    paired = [
        finding
        for finding in findings
        if finding.table == "answers" and "accuracy" in finding.details
    ]
    if not paired:
        return
    out = console()
    out.print(Text("\nthe same items in two forms", "dim"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "detector",
        "model",
        "first",
        "second",
        "Δ",
        "McNemar",
        "mid-p",
        "unread",
        "pairs",
    ):
        left = name in ("detector", "model", "first", "second")
        table.add_column(name, justify="left" if left else "right")
    for finding in paired:
        first, second = finding.details["accuracy"].items()
        unread = sum(sum(kinds.values()) for kinds in finding.details["unread"].values())
        table.add_row(
            finding.detector,
            Text(plain(finding.cell.model or "")),
            _rate(first),
            _rate(second),
            f"{100 * (second[1]['value'] - first[1]['value']):+.2f}",
            _p(finding.details["mcnemar"], "exact"),
            _p(finding.details["mcnemar"], "mid_p"),
            f"{unread:,} of {finding.details['replies']:,}",
            f"{finding.details['pairs_needed']['0.05']:,}",
        )
    out.print(table)
    note = "pairs: to see a difference of .05 in 4 of 5 studies"
    if any(
        not (finding.details["mcnemar"] or {}).get("items_independent", True) for finding in paired
    ):
        note += (
            "; p in brackets: as if items that share an image were independent, which they are not"
        )
    out.print(Text(note, "dim"))
    for finding in paired:
        _show_categories(finding)


def _show_categories(finding: Finding) -> None:
    parts: Mapping[str, Mapping[str, Any]] = finding.details["categories"]
    if not parts:
        return
    out = console()
    out.print(Text(f"\n{plain(finding.cell.model or '')}: own drop by category", "dim"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("category", "drop", "95 %", "adjusted p", "n", "clusters"):
        table.add_column(name, justify="left" if name == "category" else "right")
    for label, part in parts.items():
        known = "value" in part
        table.add_row(
            Text(plain(label)),
            f"{part['value']:+.3f}" if known else "too few",
            f"[{part['low']:+.3f}, {part['high']:+.3f}]" if known else "",
            f"{part['p_adjusted']:.2g}" if known else "",
            f"{part['n']:,}",
            f"{part['clusters']:,}",
        )
    out.print(table)


def _rate(arm: tuple[str, Mapping[str, float]]) -> str:
    return f"{arm[0]} {100 * arm[1]['value']:.2f}"


def _p(test: Mapping[str, Any] | None, which: str) -> str:
    if test is None:
        return "–"
    return f"{test[which]:.2g}" if test["items_independent"] else f"({test[which]:.2g})"
