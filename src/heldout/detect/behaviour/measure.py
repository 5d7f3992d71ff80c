"""One probe on one model: the paired difference, and the same less what clean reference models show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from heldout.detect.behaviour.probe import Arms, Probe
from heldout.detect.behaviour.rows import unlike_templates
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import PairedTest, paired_test, placed_test

_NONE: tuple[PairedTest | None, PairedTest | None] = (None, None)
FEW = 5  # images below which nothing is tested


@dataclass(frozen=True)
class Measured:
    """``raw`` is this model's own difference; ``above`` the same less the references' average."""

    arms: Arms
    pairs: pl.DataFrame  # benchmark_id, cluster, metadata, first, second
    raw: PairedTest
    plain: PairedTest
    placed: PairedTest | None
    above: PairedTest | None = None
    above_placed: PairedTest | None = None
    references: dict[str, PairedTest] = field(default_factory=dict)
    reference_raw: dict[str, PairedTest] = field(default_factory=dict)
    #: how much better than each reference the model answers the second form
    ahead: dict[str, PairedTest] = field(default_factory=dict)
    #: how often each reference is right in the first form
    reference_right: dict[str, float] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    all_read: bool = True  # nobody's reply was unreadable, the references' included

    @property
    def main(self) -> PairedTest:
        return self.raw if self.above is None else self.above

    @property
    def main_placed(self) -> PairedTest | None:
        """The tested difference with the place of the right option taken out."""
        return self.placed if self.above is None else self.above_placed


def measure(
    probe: Probe,
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    *,
    leave_out: bool = False,
) -> Measured | str:
    mine = probe.arms(tables, settings, model, leave_out)
    if isinstance(mine, str):
        return mine
    pairs = _pairs(tables, mine.rows)
    images = pairs["cluster"].n_unique()
    if images < FEW:
        return f"only {images} images were answered in both forms; at least {FEW} are needed"
    plain = _plain(pairs, settings)
    placed = _placed(tables, mine.rows, settings)
    if probe.placed and placed is None:
        return "the released place of the right option cannot be told from the release itself"
    raw = placed if probe.placed and placed is not None else plain
    others: dict[str, pl.DataFrame] = {}
    unusable: dict[str, str] = {}
    all_read = not mine.unread
    for name in settings.baselines:
        if name == model:
            continue
        theirs = probe.arms(tables, settings, name, leave_out)
        if isinstance(theirs, str):
            unusable[name] = theirs
        elif unlike_templates(mine.answers, theirs.answers) is not None:
            unusable[name] = f"{name} was asked with another template"
        else:
            others[name] = theirs.rows
            all_read = all_read and not theirs.unread
    single: dict[str, PairedTest] = {}
    reference_raw: dict[str, PairedTest] = {}
    ahead: dict[str, PairedTest] = {}
    reference_right: dict[str, float] = {}
    for name, rows in list(others.items()):
        test, _ = _above(probe, tables, mine.rows, [rows], settings)
        if test is None:
            unusable[name] = f"{name} answered fewer than {FEW} images of these"
            del others[name]
            continue
        single[name] = test
        if probe.second_may_be_wrong:
            ahead[name] = _ahead(pairs, _pairs(tables, rows), settings)
        theirs_paired = _pairs(tables, rows)
        reference_right[name] = float(theirs_paired["first"].mean() or 0.0)  # type: ignore[arg-type]
        their_placed = _placed(tables, rows, settings) if probe.placed else None
        reference_raw[name] = their_placed or _plain(theirs_paired, settings)
    both = _above(probe, tables, mine.rows, list(others.values()), settings) if others else _NONE
    return Measured(
        mine,
        pairs,
        raw,
        plain,
        placed,
        *both,
        single,
        reference_raw,
        ahead,
        reference_right,
        unusable,
        all_read,
    )


def differences(pairs: pl.DataFrame) -> Floats:
    return np.asarray((pairs["first"] - pairs["second"]).to_numpy(), dtype=np.float64)


def _pairs(tables: ScoreTables, rows: pl.DataFrame) -> pl.DataFrame:
    """One row per item, in released order: the share right in either arm."""
    sides = rows.group_by("benchmark_id").agg(
        pl.col("right").filter(pl.col("released")).mean().alias("first"),
        pl.col("right").filter(~pl.col("released")).mean().alias("second"),
    )
    known = tables.items.select("benchmark_id", "cluster", "metadata", "position")
    return known.join(sides, on="benchmark_id").sort("position").drop_nulls(["first", "second"])


def _plain(pairs: pl.DataFrame, settings: DetectSettings) -> PairedTest:
    return paired_test(
        differences(pairs),
        pairs["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
    )


def _ahead(mine: pl.DataFrame, theirs: pl.DataFrame, settings: DetectSettings) -> PairedTest:
    """On the second form, item by item: this model less the reference."""
    both = mine.join(theirs.select("benchmark_id", their="second"), on="benchmark_id")
    return paired_test(
        (both["second"] - both["their"]).to_numpy(),
        both["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
    )


def _placed(tables: ScoreTables, rows: pl.DataFrame, settings: DetectSettings) -> PairedTest | None:
    """None where there are no options, or place and release always go together."""
    if rows["place"].null_count() or (rows["place"] == "open").all():
        return None
    known = tables.items.select("benchmark_id", "cluster", "position")
    ordered = known.join(rows, on="benchmark_id").sort("position", "variant")
    return placed_test(
        ordered["right"].to_numpy(),
        ordered["released"].to_numpy(),
        ordered["benchmark_id"].to_list(),
        ordered["place"].to_list(),
        ordered["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
    )


def _above(
    probe: Probe,
    tables: ScoreTables,
    mine: pl.DataFrame,
    others: list[pl.DataFrame],
    settings: DetectSettings,
) -> tuple[PairedTest | None, PairedTest | None]:
    """The difference in differences, on what everybody answered; and the same less the place."""
    joined = mine
    for index, rows in enumerate(others):
        theirs = rows.select(
            "benchmark_id", "variant", "released", pl.col("right").alias(f"r{index}")
        )
        joined = joined.join(theirs, on=["benchmark_id", "variant", "released"])
    average = pl.mean_horizontal([f"r{index}" for index in range(len(others))])
    joined = joined.with_columns((pl.col("right") - average).alias("right"))
    pairs = _pairs(tables, joined)
    if pairs["cluster"].n_unique() < FEW:
        return _NONE
    kept = joined.filter(pl.col("benchmark_id").is_in(pairs["benchmark_id"].to_list()))
    placed = _placed(tables, kept, settings)
    return (placed if probe.placed else _plain(pairs, settings)), placed
