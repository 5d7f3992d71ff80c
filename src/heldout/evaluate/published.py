"""Published accuracies with the intervals they lack: which differences of means could be noise?

Only accuracies and numbers of items are known. How often two models are right about the
same items was not published, so a difference is given for two cases: models whose errors are independent,
and models that disagree as rarely as related ones usually do. Both are about the sampling of items alone:
neither includes the variation between training runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy import special

from heldout.documents import Readable, read_yaml
from heldout.errors import InputError, percent
from heldout.stats import holm

NORMAL = 1.959964
CLEAR, DEPENDS, NOISE = "clear", "depends on pairing", "could be noise"
_ROUNDED = 0.0051  # half of the last digit that is printed, in points
RUNS = 3  # of which a printed accuracy may be the mean
FEWER = 5  # items that a row may leave out
Floats = NDArray[np.float64]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedBenchmark(_Strict):
    """``design_effect``: what sharing images costs; 1 where items are independent."""

    name: str
    items: Annotated[int, Field(ge=2)]
    images: Annotated[int, Field(ge=1)] | None = None
    design_effect: Annotated[float, Field(gt=0)] = 1.0


class PublishedRow(_Strict):
    values: tuple[Annotated[float, Field(ge=0, le=100)], ...]
    mean: float | None = None


class PublishedPair(_Strict):
    first: str
    second: str
    table: str | int = ""


class PublishedQuote(_Strict):
    text: str
    row: str
    mean: float


class PublishedTables(_Strict):
    """A file of published accuracies, in per cent."""

    title: str
    benchmarks: Annotated[tuple[PublishedBenchmark, ...], Field(min_length=1)]
    usual_disagreement: Annotated[float, Field(ge=0, le=1)] = 0.5
    rows: dict[str, PublishedRow]
    differences: tuple[PublishedPair, ...]
    quotes: tuple[PublishedQuote, ...] = ()


@dataclass(frozen=True)
class PublishedDifference:
    """``independent`` and ``usual``: half of the 95 % interval in either case. ``most_disagreement``: the
    share of items on which the two may differ for the difference to be clear; None where it always is."""

    table: str
    label: str
    value: float
    independent: float
    usual: float
    p_independent: float
    p_usual: float
    most_disagreement: float | None
    reading: str
    clear_benchmarks: int


@dataclass(frozen=True)
class PublishedStudy:
    """Every difference with its reading, the means with intervals, and what the tables themselves show."""

    title: str
    benchmarks: tuple[PublishedBenchmark, ...]
    means: Mapping[str, tuple[float, float]]  # value and half of the 95 % interval
    printed: Mapping[str, float]
    differences: tuple[PublishedDifference, ...]
    assumptions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    def by_table(self) -> dict[str, list[PublishedDifference]]:
        tables: dict[str, list[PublishedDifference]] = {}
        for difference in self.differences:
            tables.setdefault(difference.table, []).append(difference)
        return tables

    def counts(self) -> dict[str, int]:
        readings = Counter(difference.reading for difference in self.differences)
        return {name: readings[name] for name in (CLEAR, DEPENDS, NOISE)}

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "benchmarks": [benchmark.model_dump() for benchmark in self.benchmarks],
            "means": {
                name: {"value": v, "half_interval": h} for name, (v, h) in self.means.items()
            },
            "differences": [vars(difference) for difference in self.differences],
            "counts": self.counts(),
            "assumptions": list(self.assumptions),
            "remarks": list(self.remarks),
        }


def study_published(source: str, *, design_effect: float | None = None) -> PublishedStudy:
    """Read a table of published accuracies and give its differences the intervals they lack.

    Args:
        source: YAML file, or the name of a table that comes with heldout (``medvlsynther``).
        design_effect: In place of those in the file, for all benchmarks.

    Returns:
        Differences with their readings, means with intervals, remarks on the arithmetic.
    """
    tables = _read(source)
    sizes = np.array([benchmark.items for benchmark in tables.benchmarks], dtype=np.float64)
    effects = np.array(
        [design_effect or benchmark.design_effect for benchmark in tables.benchmarks]
    )
    rows = {name: np.array(row.values) / 100 for name, row in tables.rows.items()}
    means = {
        name: (float(row.mean()), NORMAL * _mean_error(row * (1 - row), sizes, effects))
        for name, row in rows.items()
    }
    share = tables.usual_disagreement
    differences = tuple(
        _difference(pair, rows[pair.first], rows[pair.second], sizes, effects, share)
        for pair in tables.differences
    )
    return PublishedStudy(
        tables.title,
        tables.benchmarks,
        means,
        {name: row.mean for name, row in tables.rows.items() if row.mean is not None},
        differences,
        tuple(_assumptions(tables, rows)),
        tuple(_remarks(tables, differences)),
    )


def disagreement(first: Floats, second: Floats, share: float) -> Floats:
    """Share of items that one model alone gets right: at least the difference of the two accuracies, and
    ``share`` of the way from there to what independent models have."""
    least = np.abs(first - second)
    independent = first * (1 - second) + second * (1 - first)
    return np.asarray(least + share * (independent - least))


def _difference(
    pair: PublishedPair, first: Floats, second: Floats, sizes: Floats, effects: Floats, share: float
) -> PublishedDifference:
    gaps = first - second
    value = float(gaps.mean())

    def error(part: float) -> float:
        return _mean_error(disagreement(first, second, part) - gaps**2, sizes, effects)

    independent, usual = error(1.0), error(share)
    single = np.sqrt(effects * (disagreement(first, second, share) - gaps**2) / sizes)
    reading = NOISE
    if abs(value) > NORMAL * independent:
        reading = CLEAR
    elif abs(value) > NORMAL * usual:
        reading = DEPENDS
    most = None
    if reading != CLEAR:
        part = _largest_share(abs(value), error)
        most = float(disagreement(first, second, part).mean()) if part is not None else 0.0
    return PublishedDifference(
        str(pair.table),
        f"{pair.first} − {pair.second}",
        value,
        NORMAL * independent,
        NORMAL * usual,
        _p(value, independent),
        _p(value, usual),
        most,
        reading,
        int((np.abs(gaps) > NORMAL * single).sum()),
    )


def _largest_share(value: float, error: Any) -> float | None:
    """The largest part of the independent disagreement at which ``value`` still is clear; None for none."""
    if value <= NORMAL * error(0.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if value > NORMAL * error(middle) else (low, middle)
    return low


def _mean_error(variances: Floats, sizes: Floats, effects: Floats) -> float:
    return float(np.sqrt((np.maximum(variances, 0) * effects / sizes).sum())) / len(sizes)


def _p(value: float, error: float) -> float:
    return 2 * float(special.ndtr(-abs(value) / error)) if error > 0 else 1.0


def _assumptions(tables: PublishedTables, rows: Mapping[str, Floats]) -> list[str]:
    pairs = [(rows[difference.first], rows[difference.second]) for difference in tables.differences]
    apart, usual = (
        float(np.mean([disagreement(a, b, part).mean() for a, b in pairs]))
        for part in (1.0, tables.usual_disagreement)
    )
    smallest = min(
        tables.benchmarks,
        key=lambda published_benchmark: (
            published_benchmark.items / published_benchmark.design_effect
        ),
    )
    alone = 50 * math.sqrt(smallest.design_effect / smallest.items) / len(tables.benchmarks)
    return [
        f"{smallest.name} has {smallest.items:,} items and the weight of any other benchmark: it alone "
        f"adds a standard error of up to {alone:.1f} points to every mean.",
        f"Independent: the two models disagree as often as models that know nothing of each other "
        f"({percent(apart, 0)} of items on average). Usually paired: "
        f"{percent(tables.usual_disagreement, 0)} of the way from the least possible "
        f"disagreement to that ({percent(usual, 0)}).",
        "Clear: larger than the half interval (95 %) even if independent. Depends on pairing: larger "
        "only if "
        "usually paired. May disagree: the share of items that one of the two alone may get right for the "
        "difference to be clear. Intervals are of the items; another training run is in none of them.",
    ]


def _remarks(tables: PublishedTables, differences: Sequence[PublishedDifference]) -> list[str]:
    remarks = []
    for part, name in (("p_independent", "if independent"), ("p_usual", "if usually paired")):
        adjusted = holm(
            [getattr(published_difference, part) for published_difference in differences]
        )
        clear = sum(p <= 0.05 for p in adjusted)
        remarks.append(
            f"Corrected over all {len(differences)} differences (Holm), {clear} are clear {name}."
        )
    for name, row in tables.rows.items():
        mean = sum(row.values) / len(row.values)
        if row.mean is not None and abs(mean - row.mean) > 2 * _ROUNDED:
            remarks.append(
                f"{name}: the printed mean is {row.mean:.2f}, the mean of its values {mean:.2f}."
            )
    for quote in tables.quotes:
        printed = tables.rows[quote.row].mean
        if printed is not None and abs(printed - quote.mean) > _ROUNDED:
            remarks.append(
                f'The text says "{quote.text}"; the table has {printed:.2f} for that row'
                + _elsewhere(tables, quote)
                + "."
            )
    return remarks + _uncountable(tables)


def _elsewhere(tables: PublishedTables, quote: PublishedQuote) -> str:
    same = [
        n for n, row in tables.rows.items() if row.mean and abs(row.mean - quote.mean) < _ROUNDED
    ]
    return f", and {quote.mean:.2f} for '{same[0]}'" if same else ""


def _uncountable(tables: PublishedTables) -> list[str]:
    """Accuracies that no whole number of right answers gives (the GRIM test), and numbers of items that
    would."""
    messages: list[str] = []
    averaged: dict[str, int] = {}
    neither: dict[str, list[float]] = {}
    cells = 0
    for place, benchmark in enumerate(tables.benchmarks):
        values = {name: row.values[place] for name, row in tables.rows.items()}
        sizes = _sizes(list(values.values()), benchmark.items)
        if sizes[0] != benchmark.items:
            fits = [
                sum(_countable(v, n) for v in values.values()) for n in (sizes[0], benchmark.items)
            ]
            messages.append(
                f"{benchmark.name}: {fits[0]} of {len(values)} accuracies are whole numbers of right "
                f"answers out of {' or '.join(f'{n:,}' for n in sizes)} items, {fits[1]} out of "
                f"{benchmark.items:,}: some rows leave items out."
            )
        for name, value in values.items():
            if any(_countable(value, n) for n in (*sizes, benchmark.items)):
                continue
            cells += 1
            if any(_countable(value, RUNS * n) for n in (benchmark.items, *sizes)):
                averaged[name] = averaged.get(name, 0) + 1
            else:
                neither.setdefault(benchmark.name, []).append(value)
    if averaged:
        messages.append(
            f"{sum(averaged.values())} accuracies are not a whole number of right answers but the mean of "
            f"{RUNS} runs. They stand in {len(averaged)} of {len(tables.rows)} rows: "
            f"{', '.join(averaged)}. The other rows are single runs."
        )
    for benchmark_name, odd in neither.items():
        listed = ", ".join(f"{value:.2f}" for value in odd)
        messages.append(f"{benchmark_name}: neither one run nor {RUNS} give {listed}.")
    return messages


def _sizes(values: Sequence[float], items: int) -> list[int]:
    """Numbers of items, at most ``FEWER`` below the full one, of which most accuracies are whole shares."""
    fits = {n: sum(_countable(v, n) for v in values) for n in range(items, items - FEWER - 1, -1)}
    best = max(fits.values())
    return [items] if fits[items] == best else [n for n, count in fits.items() if count == best]


def _countable(value: float, items: int) -> bool:
    right = value / 100 * items
    return any(
        abs(100 * whole / items - value) <= _ROUNDED
        for whole in (math.floor(right), math.ceil(right))
    )


def _read(source: str) -> PublishedTables:
    path: Readable = Path(source)
    if not Path(source).is_file():
        folder = resources.files("heldout.evaluate") / "tables"
        known = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
        if source not in known:
            raise InputError(
                f"{source} is no file; built-in tables of published accuracies: {', '.join(known)}"
            )
        path = folder / f"{source}.yaml"
    try:
        tables = PublishedTables.model_validate(read_yaml(path, source)[0])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{source}: {place}: {first['msg']}") from error
    for name, row in tables.rows.items():
        if len(row.values) != len(tables.benchmarks):
            raise InputError(
                f"{source}: row '{name}' has {len(row.values)} values for {len(tables.benchmarks)} "
                "benchmarks"
            )
    named = [name for pair in tables.differences for name in (pair.first, pair.second)]
    for name in (*named, *(quote.row for quote in tables.quotes)):
        if name not in tables.rows:
            raise InputError(f"{source}: there is no row '{name}'")
    return tables
