"""What `heldout lab confound` leaves behind: a page, its numbers and the two figures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.lab.confound import ConfoundResult
from heldout.report.figures import standalone
from heldout.report.figures.confound import composition_chart, tail_chart
from heldout.store import write_atomic, write_json


def confound_json(result: ConfoundResult) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "settings": asdict(result.settings),
        "cohort": [asdict(row) for row in result.rows],
        "sweep": [asdict(point) for point in result.sweep],
    }


def confound_page(result: ConfoundResult, command: str) -> str:
    settings = result.settings
    lines = [
        "# A clean cohort that flags itself",
        "",
        f"`{command}`",
        "",
        f"{settings.items:,} items ({settings.closed:,} closed), nobody has seen any of them. A model is "
        f"flagged when more than {settings.flag:.0%} of its items lie more than {settings.tail:g} above "
        f"the median of the others.",
        "",
        f"| model | gain | largest Δ | Pr[Δ > {settings.tail:g}] | |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {index + 1} | {row.gain:g} | {row.delta_max:,.1f} | {row.tail_rate:.4f} | "
        f"{'**flagged**' if row.flagged else ''} |"
        for index, row in enumerate(result.rows)
    ]
    lines += [
        "", "![tails](tails.svg)", "",
        f"A clean probe of gain {settings.high_gain:g} beside two of the same gain, and low-gain models:",
        "", f"| low-gain models | mean Pr[Δ > {settings.tail:g}] | flag probability |", "|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {point.outliers} | {point.tail_rate:.4f} | {point.flag_probability:g} |"
        for point in result.sweep
    ]
    lines += ["", "![composition](composition.svg)", ""]
    return "\n".join(lines)


def write_confound(result: ConfoundResult, out: Path, command: str) -> list[Path]:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")
    out.mkdir(parents=True, exist_ok=True)
    settings = result.settings
    names = [f"gain {row.gain:g}" for row in result.rows]
    tails = tail_chart(names, result.delta, tail=settings.tail, flag=settings.flag)
    composition = composition_chart(
        [point.outliers for point in result.sweep],
        [point.flag_probability for point in result.sweep],
        [point.tail_rate for point in result.sweep],
    )
    paths = [
        out / name for name in ("confound.md", "confound.json", "tails.svg", "composition.svg")
    ]
    write_atomic(paths[0], confound_page(result, command))
    write_json(paths[1], confound_json(result))
    write_atomic(paths[2], standalone(tails))
    write_atomic(paths[3], standalone(composition))
    return paths
