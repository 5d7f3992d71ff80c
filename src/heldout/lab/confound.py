"""The cohort-median confound from first principles: no model, no contamination, and still a flag.

Scores follow the calibration model of the published audit (its Equation 1): gain × easiness + offset +
noise, without any contamination. A cohort's median falls on its low-gain members, and every
clean high-gain model is flagged. With the defaults the draws are those of the published simulation,
number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.detect import cohort_delta
from heldout.errors import InputError, percent
from heldout.lab.settings import ConfoundSettings
from heldout.report import composition_chart, standalone, tail_chart
from heldout.store import write_atomic, write_json

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ConfoundRow:
    gain: float
    delta_max: float
    tail_rate: float
    flagged: bool


@dataclass(frozen=True)
class GainPoint:
    outliers: int
    tail_rate: float  # mean over repeats
    flag_probability: float


@dataclass(frozen=True)
class ConfoundResult:
    settings: ConfoundSettings
    rows: list[ConfoundRow]
    sweep: list[GainPoint]
    #: Δ of every model, for the figure
    delta: Floats = field(repr=False, compare=False, default_factory=lambda: np.empty((0, 0)))


def study_confound(settings: ConfoundSettings | None = None) -> ConfoundResult:
    constants = settings or ConfoundSettings()
    delta = cohort_delta(_cohort(constants, constants.gains, np.random.default_rng(constants.seed)))
    rows = []
    for gain, row in zip(constants.gains, delta, strict=True):
        rate = float((row > constants.tail).mean())
        rows.append(ConfoundRow(gain, float(row.max()), rate, rate > constants.flag))
    return ConfoundResult(constants, rows, _sweep(constants), delta)


def _sweep(settings: ConfoundSettings) -> list[GainPoint]:
    """A clean high-gain probe beside two high-gain anchors and a growing number of outliers."""
    points = []
    for outliers in range(settings.most_outliers + 1):
        gains = (settings.low_gain,) * outliers + (settings.high_gain,) * 3
        plain = settings.model_copy(update={"offsets": ()})
        rates = []
        for repeat in range(settings.repeats):
            rng = np.random.default_rng([settings.seed, outliers, repeat])
            probe = cohort_delta(_cohort(plain, gains, rng))[-1]
            rates.append(float((probe > settings.tail).mean()))
        flags = float(np.mean([rate > settings.flag for rate in rates]))
        points.append(GainPoint(outliers, float(np.mean(rates)), flags))
    return points


def _cohort(settings: ConfoundSettings, gains: Sequence[float], rng: np.random.Generator) -> Floats:
    """Models × items, by Equation 1 with a contamination of 0 everywhere."""
    easiness = np.concatenate(
        [
            np.abs(rng.normal(0.0, 1.0, settings.items - settings.closed)),
            rng.exponential(settings.closed_scale, settings.closed),
        ]
    )
    rng.shuffle(easiness)
    offsets = settings.offsets or (0.0,) * len(gains)
    return np.stack(
        [
            gain * easiness + offset + rng.normal(0.0, settings.noise, settings.items)
            for gain, offset in zip(gains, offsets, strict=True)
        ]
    )


# What `heldout lab confound` writes: a page, its numbers and the two figures.


def confound_json(result: ConfoundResult) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "settings": result.settings.model_dump(mode="json"),
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
        f"{settings.items:,} items ({settings.closed:,} closed), no model has seen any of them. A model is "
        f"flagged when more than {percent(settings.flag, 0)} of its items lie more than {settings.tail:g} above "
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
        "",
        "![tails](tails.svg)",
        "",
        f"A clean probe of gain {settings.high_gain:g} beside two of the same gain, and low-gain models:",
        "",
        f"| low-gain models | mean Pr[Δ > {settings.tail:g}] | flag probability |",
        "|---|---|---|",
    ]
    lines += [
        f"| {point.outliers} | {point.tail_rate:.4f} | {point.flag_probability:g} |"
        for point in result.sweep
    ]
    lines += ["", "![composition](composition.svg)", ""]
    return "\n".join(lines)


def write_confound(result: ConfoundResult, out: Path, command: str) -> list[Path]:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose the name of a folder")
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
