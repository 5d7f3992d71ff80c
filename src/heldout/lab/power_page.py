"""What `heldout lab power` leaves behind: the leaderboard's page, its figure and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from heldout.lab.power_answers import answers, by_arm
from heldout.lab.power_board import Standing, dose_arms, models_by_role
from heldout.lab.power_leaderboard import TOLD, boards, required_page, table
from heldout.lab.power_models import (
    CLEAN,
    OTHER_SEEDS,
    RAW,
    About,
)
from heldout.lab.power_rates import RATES, measured_rates
from heldout.lab.power_requirements import Requirements
from heldout.lab.power_share import LEVEL, Share, fired
from heldout.report.figures import standalone
from heldout.report.figures.power import DoseCurve, DosePanel, power_chart
from heldout.store import write_atomic, write_json
from heldout.store.atomic import replacing

PAGE, DATA = "detector-power.md", "detector-power.parquet"


def write_power(
    rows: pl.DataFrame,
    board: Sequence[Standing],
    required: Sequence[Requirements],
    folder: Path,
    command: str,
    about: About = About(),  # noqa: B008 - frozen
) -> list[Path]:
    """Last of the paths: the rates that the verdict reads."""
    page, data, rates = folder / PAGE, folder / "data" / DATA, folder / "data" / RATES
    with replacing(data) as temporary:
        rows.write_parquet(temporary, compression="zstd", compression_level=19)
    drawn = []
    for name in _tested(rows)["benchmark"].unique(maintain_order=True):
        drawn.append(folder / "figures" / _figure_name(name))
        write_atomic(drawn[-1], standalone(power_figure(rows, name)))
    write_json(rates, measured_rates(data, command, about.weights).model_dump(mode="json"))
    write_atomic(page, power_page(rows, board, required, command, about))
    return [page, *drawn, data, rates]


def power_page(
    rows: pl.DataFrame,
    board: Sequence[Standing],
    required: Sequence[Requirements],
    command: str,
    about: About = About(),  # noqa: B008 - frozen
) -> str:
    return "\n".join(
        [*_head(rows, command), *boards(rows, board, about), *required_page(required),
         "## Power against dose", "",
         "Share of models that fire, with Clopper–Pearson bands; clean models at the left. The red line is "
         "the level of the test.", "", *_figures(rows),
         "## Answers", "", *answers(rows, board), *_arms(rows), *_limits(rows, about.weights)]
    ) + "\n"  # fmt: skip


def power_figure(rows: pl.DataFrame, benchmark: str) -> str:
    tested = _tested(rows).filter(pl.col("benchmark") == benchmark)
    panels = []
    for name in tested["detector"].unique(maintain_order=True):
        mine = tested.filter(pl.col("detector") == name)
        curves = [
            made for way in (RAW, OTHER_SEEDS)
            if (made := _curve(mine.filter(pl.col("way") == way), TOLD[way])) is not None
        ]  # fmt: skip
        if curves:
            panels.append(DosePanel(name, curves))
    title = f"Share of models that fire, by dose: {benchmark}"
    return str(power_chart(panels, level=LEVEL, title=title))


def _tested(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("p").is_not_null() & (pl.col("split") == ""))


def _figure_name(benchmark: str) -> str:
    plain = "".join(letter if letter.isalnum() else "-" for letter in benchmark)
    return f"detector-power-{plain}.svg"


def _figures(rows: pl.DataFrame) -> Iterator[str]:
    for name in _tested(rows)["benchmark"].unique(maintain_order=True):
        yield f"![power against dose, {name}](figures/{_figure_name(name)})"
        yield ""


def _curve(frame: pl.DataFrame, name: str) -> DoseCurve | None:
    arms = dose_arms(frame)
    doses = sorted(arms["dose"].unique().to_list())
    if not doses:
        return None
    shares = [fired(frame.filter(pl.col("role") == CLEAN))]
    shares += [fired(arms.filter(pl.col("dose") == dose)) for dose in doses]
    return DoseCurve(
        name, [0, *doses], [one.value for one in shares],
        [one.interval.low for one in shares], [one.interval.high for one in shares],
    )  # fmt: skip


def _head(rows: pl.DataFrame, command: str) -> Iterator[str]:
    yield "# What detectors can see: power and false positives on models whose contamination is known"
    yield ""
    yield (
        f"Written by `{command}` from the grid of [lab.md](lab.md); the rows are in `data/{DATA}`, the "
        f"rates that the [verdict](verdict.md) reads in `data/{RATES}`."
    )
    yield ""
    counted = models_by_role(rows)
    yield from table(
        ("benchmark", "contaminated", "clean", "outsiders"),
        ([name, *map(str, counts.values())] for name, counts in counted.items()),
    )
    yield (
        "*Clean* models know the benchmark's world and none of its items (bases count, too); *outsiders* "
        "were trained on another world. A detector *fires* when its two-sided p is at most .05 and it "
        "points to memory. Every detector runs in up to three ways: "
        + "; ".join(f"**{way}**, {told}" for way, told in TOLD.items())
        + ". Behaviour detectors are compared with the references' average, order and membership with "
        "every reference in turn and the largest p counts, as in the verdict. A model is never its own "
        "reference."
    )
    yield ""


def _arms(rows: pl.DataFrame) -> Iterator[str]:
    yield "## Arm by arm"
    yield ""
    yield f"Models that fire less clean models of other seeds; the other ways are in `data/{DATA}`."
    yield ""
    for benchmark in rows["benchmark"].unique(maintain_order=True):
        lines = by_arm(rows, benchmark, OTHER_SEEDS)
        yield from [*lines, ""] if lines else []


def _limits(rows: pl.DataFrame, weights: int | None) -> Iterator[str]:
    yield "## What this cannot show"
    yield ""
    clean = rows.filter((pl.col("role") == CLEAN) & (pl.col("split") == ""))
    count = clean.select("benchmark", "model").n_unique()
    none = Share(0, count, clean["model"].n_unique())
    size = (
        "Models this small" if weights is None else f"Models of {weights / 1e6:.1f} million weights"
    )
    yield (
        f"- **False-positive rates below a few per cent.** Not one of {count} clean cells of {none.units} "
        f"models firing would still allow a rate of {none.interval.high:.0%}, and those models come from "
        f"{clean['base'].n_unique()} bases."
    )
    yield (
        f"- **Large models.** {size} learn answers and hardly sequences of questions: that the order tests "
        "see little here says little about a model that memorises its documents. The verdict lets these "
        "rates cap a claim, and never strengthen one."
    )
    yield (
        "- **Calibration between seeds.** Clean models of other seeds have other weak spots, and a "
        "detector that fires on them finds those. Published models may differ by more."
    )
    yield "- **What no table holds:**"
    missing = pl.col("effect").is_null() & (pl.col("reason") != "") & (pl.col("role") != "doses")
    reasons = rows.filter(missing)
    listed = reasons.select("benchmark", "detector", "reason").unique(maintain_order=True)
    told: dict[tuple[str, str], list[str]] = {}
    for benchmark, detector, reason in listed.iter_rows():
        short = reason.split(" (")[0].split(":")[0]
        places = told.setdefault((detector, short), [])
        if benchmark not in places:
            places.append(benchmark)
    for (detector, reason), places in told.items():
        yield f"  - {detector} ({', '.join(places)}): {reason}"
    yield "  - top-k-overlap: it speaks of pairs of models, not of models"
