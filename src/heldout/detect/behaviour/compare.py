"""A probe's finding: effect, test, and everything needed to judge them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from heldout.detect.behaviour.probe import (
    ACCURACY,
    Arms,
    Probe,
    liked_places,
    pairs_missing,
    pairs_recorded,
    unlike_templates,
    without_liked,
)
from heldout.detect.detector import Citation, Detector, Need
from heldout.detect.finding import Outcome, direction_of, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables, metadata_column
from heldout.stats import (
    Interval,
    PairedTest,
    adjust,
    binomial_interval,
    cluster_rate_interval,
    mcnemar,
    paired_table,
    paired_test,
    pairs_needed,
    placed_test,
)

# One probe on one model: the paired difference, and the same less what clean reference models show.


_NONE: tuple[PairedTest | None, PairedTest | None] = (None, None)
FEW = 5  # images below which nothing is tested


@dataclass(frozen=True)
class PairedMeasurement:
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
    #: how much better than each reference the model answers the second form, and the first
    ahead: dict[str, PairedTest] = field(default_factory=dict)
    ahead_first: dict[str, PairedTest] = field(default_factory=dict)
    #: how often each reference is right in the first form
    reference_right: dict[str, float] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    all_read: bool = True  # True if no reply was unreadable, the references' included
    #: places that the model likes, and the tested difference without items that were released there
    liked: tuple[str, ...] = ()
    unliked: PairedTest | None = None
    above_pairs: pl.DataFrame | None = None  # as ``pairs``, less the references' average

    @property
    def main(self) -> PairedTest:
        return self.raw if self.above is None else self.above

    @property
    def main_placed(self) -> PairedTest | None:
        """The tested difference, adjusted for the place of the right option."""
        return self.placed if self.above is None else self.above_placed


def measure(
    probe: Probe,
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    *,
    leave_out: bool = False,
) -> PairedMeasurement | str:
    mine = probe.read(tables, settings, model, leave_out)
    if isinstance(mine, str):
        return mine
    pairs = _pairs(tables, mine.rows)
    images = pairs["cluster"].n_unique()
    if images < FEW:
        return f"only {images} images were answered in both forms; at least {FEW} are needed"
    plain = _plain(probe, pairs, settings)
    placed = _placed(probe, tables, mine.rows, settings)
    if probe.placed and placed is None:
        return (
            "the released place of the right option cannot be distinguished from the release itself"
        )
    raw = placed if probe.placed and placed is not None else plain
    others: dict[str, pl.DataFrame] = {}
    unusable: dict[str, str] = {}
    all_read = not mine.unread
    for name in settings.baselines:
        if name == model:
            continue
        theirs = probe.read(tables, settings, name, leave_out)
        if isinstance(theirs, str):
            unusable[name] = theirs
        elif unlike_templates(mine.answers, theirs.answers) is not None:
            unusable[name] = f"{name} was asked with another template or backend"
        else:
            others[name] = theirs.rows
            all_read = all_read and not theirs.unread
    single: dict[str, PairedTest] = {}
    reference_raw: dict[str, PairedTest] = {}
    ahead: dict[str, PairedTest] = {}
    ahead_first: dict[str, PairedTest] = {}
    reference_right: dict[str, float] = {}
    for name, rows in list(others.items()):
        test, _ = _above(probe, tables, mine.rows, [rows], settings)
        if test is None:
            unusable[name] = f"{name} answered fewer than {FEW} images of these"
            del others[name]
            continue
        single[name] = test
        theirs_paired = _pairs(tables, rows)
        if probe.second_may_be_wrong:
            ahead[name] = _ahead(pairs, theirs_paired, settings)
            ahead_first[name] = _ahead(pairs, theirs_paired, settings, "first")
        reference_right[name] = float(theirs_paired["first"].mean() or 0.0)  # type: ignore[arg-type]
        their_placed = _placed(probe, tables, rows, settings) if probe.placed else None
        reference_raw[name] = their_placed or _plain(probe, theirs_paired, settings)
    both = _above(probe, tables, mine.rows, list(others.values()), settings) if others else _NONE
    liked = liked_places(mine.rows)
    fewer = without_liked(mine.rows, liked)
    unliked, _ = (
        _above(probe, tables, fewer, list(others.values()), settings)
        if liked and others and not fewer.is_empty()
        else _NONE
    )
    return PairedMeasurement(
        mine,
        pairs,
        raw,
        plain,
        placed,
        *both,
        single,
        reference_raw,
        ahead,
        ahead_first,
        reference_right,
        unusable,
        all_read,
        tuple(liked),
        unliked,
        _pairs(tables, _less_others(mine.rows, list(others.values()))) if others else None,
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


def _plain(probe: Probe, pairs: pl.DataFrame, settings: DetectSettings) -> PairedTest:
    return paired_test(
        differences(pairs),
        pairs["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
        shares=probe.measures == ACCURACY,
    )


def _ahead(
    mine: pl.DataFrame, theirs: pl.DataFrame, settings: DetectSettings, form: str = "second"
) -> PairedTest:
    """On one form, item by item: this model less the reference."""
    both = mine.join(theirs.select("benchmark_id", their=form), on="benchmark_id")
    return paired_test(
        (both[form] - both["their"]).to_numpy(),
        both["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
    )


def _placed(
    probe: Probe, tables: ScoreTables, rows: pl.DataFrame, settings: DetectSettings
) -> PairedTest | None:
    """None if there are no options, or if place and released order cannot be separated."""
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
        shares=probe.measures == ACCURACY,
    )


def _above(
    probe: Probe,
    tables: ScoreTables,
    mine: pl.DataFrame,
    others: list[pl.DataFrame],
    settings: DetectSettings,
) -> tuple[PairedTest | None, PairedTest | None]:
    """The difference in differences on items that all models answered; and the same adjusted for place."""
    joined = _less_others(mine, others)
    pairs = _pairs(tables, joined)
    if pairs["cluster"].n_unique() < FEW:
        return _NONE
    kept = joined.filter(pl.col("benchmark_id").is_in(pairs["benchmark_id"].to_list()))
    placed = _placed(probe, tables, kept, settings)
    return (placed if probe.placed else _plain(probe, pairs, settings)), placed


def _less_others(mine: pl.DataFrame, others: list[pl.DataFrame]) -> pl.DataFrame:
    """The model's rows less the others' average, where all have answered."""
    joined = mine
    for index, rows in enumerate(others):
        theirs = rows.select(
            "benchmark_id", "variant", "released", pl.col("right").alias(f"r{index}")
        )
        joined = joined.join(theirs, on=["benchmark_id", "variant", "released"])
    average = pl.mean_horizontal([f"r{index}" for index in range(len(others))])
    return joined.with_columns((pl.col("right") - average).alias("right"))


DROPS = (0.02, 0.05, 0.1, 0.2)  # for which the number of pairs needed is reported
SMALLEST = 10  # items of a category below which it is only counted


def probe_detector(
    probe: Probe,
    summary: str,
    *,
    variants: tuple[str, ...],
    asks: str = "",
    find: Callable[[ScoreTables, DetectSettings], Iterable[Outcome]] | None = None,
    requires: Collection[Need] = (),
    citations: tuple[Citation, ...] = (),
) -> Detector:
    """A detector made of a probe: the same items answered in two forms.

    Args:
        probe: The two forms, and how their difference reads.
        summary: What it asks, in one line.
        variants: Answers it reads; see ``Detector``.
        asks: Variants that an audit asks for if it names this detector.
        find: Where the probe is not simply run on every model.
        requires: What it needs beside answers.
        citations: What to cite.
    """
    return Detector(
        probe.name,
        probe.name,
        summary,
        find or partial(compare_all, probe),
        needs="answers",
        requires=frozenset(requires),
        variants=variants,
        asks=asks,
        controls=("answers",),
        citations=citations,
    )


def compare_all(probe: Probe, tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        yield compare(probe, tables, settings, model)


def compare(
    probe: Probe,
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    *,
    more: dict[str, Any] | None = None,
) -> Outcome:
    measured = measure(probe, tables, settings, model)
    if isinstance(measured, str):
        return not_testable(probe.name, tables.benchmark, model, measured)
    main = measured.main
    tested = probe.zero_is_clean or measured.above is not None
    value = -measured.plain.value
    name = (
        probe.effect if measured.above is None else f"{probe.effect}, minus that of the references"
    )
    return model_finding(
        probe.name,
        tables.benchmark,
        model,
        unit="questions",
        statistic=(
            f"Δ = {probe.measures} ({probe.second}) - {probe.measures} ({probe.first})",
            value,
        ),
        effect=(name, main.value, main.interval),
        error=main.error,
        p=main.p if tested else None,
        n=main.n,
        clusters=main.clusters,
        blind_to=probe.blind_to,
        seed=settings.seed,
        table="answers",
        details={
            "p_tied": main.p_tied,
            "permutations": main.permutations or None,
            "least_p": main.least,
            "test": main.method if tested else "none: a clean model shows a difference, too",
            **_details(probe, measured, settings),
            "pairs": probe.counted,
            "pairs_recorded": pairs_recorded(
                probe, tables, settings, [model, *measured.references]
            ),
            "missing_may_hide": pairs_missing(
                probe, tables, settings, [model, *measured.references]
            ),
            "without_unread": _without_unread(probe, tables, settings, model, measured),
            **(more or {}),
        },
    )


def test_record(test: PairedTest | None, tested: bool = True) -> dict[str, Any] | None:
    """As JSON; ``tested`` is False where a clean model would show a difference, too."""
    if test is None:
        return None
    p = test.p if tested else None
    return {
        "value": test.value,
        "low": test.interval.low,
        "high": test.interval.high,
        "p": p,
        "direction": direction_of(p, test.value),
        "n": test.n,
        "clusters": test.clusters,
    }


def liked_record(places: Sequence[str], without: PairedTest | None) -> dict[str, Any]:
    """Which places the model likes, and the tested difference ``without`` items released there."""
    return {"places": list(places), "without": test_record(without)}


def rate(hits: pl.Series, clusters: list[str]) -> dict[str, float]:
    values = hits.to_list()
    alone = len(set(clusters)) == len(clusters) and set(values) <= {0.0, 1.0}
    interval: Interval = (
        binomial_interval(int(sum(values)), len(values))
        if alone
        else cluster_rate_interval(values, clusters)
    )
    return {"value": float(hits.mean() or 0.0), "low": interval.low, "high": interval.high}  # type: ignore[arg-type]


def categories(
    pairs: pl.DataFrame, name: str, settings: DetectSettings
) -> dict[str, dict[str, Any]]:
    """The drop in every value of a metadata field, corrected over them by Holm."""
    labels = pl.Series([label or "none" for label in metadata_column(pairs, name)])
    records: dict[str, dict[str, Any]] = {}
    for label in sorted(set(labels)):
        part = pairs.filter(labels == label)
        records[label] = {"n": len(part), "clusters": part["cluster"].n_unique()}
        if len(part) >= SMALLEST:
            test = paired_test(
                differences(part),
                part["cluster"].to_list(),
                permutations=settings.permutations,
                seed=settings.seed,
            )
            records[label] |= test_record(test) or {}
    tested = [label for label in records if "p" in records[label]]
    for label, p in zip(
        tested, adjust([records[pair]["p"] for pair in tested], "holm"), strict=True
    ):
        records[label]["p_adjusted"] = p
        records[label]["direction"] = direction_of(p, records[label]["value"])
    return records


def _details(probe: Probe, measured: PairedMeasurement, settings: DetectSettings) -> dict[str, Any]:
    pairs, clusters = measured.pairs, measured.pairs["cluster"].to_list()
    table = paired_table(pairs["first"].to_numpy(), pairs["second"].to_numpy())
    # of right and wrong the share of pairs that differ; the same for averages and probabilities
    discordant = float((differences(pairs) ** 2).mean())
    own = probe.zero_is_clean
    exact = mcnemar(table.first, table.second) if table and own else None
    named = (
        {
            "both right": table.both,
            f"{probe.first} alone": table.first,
            f"{probe.second} alone": table.second,
            "neither": table.neither,
        }
        if table
        else None
    )
    return {
        probe.measures: {
            probe.first: rate(pairs["first"], clusters),
            probe.second: rate(pairs["second"], clusters),
        },
        "own": test_record(measured.raw, own),
        "plain": test_record(measured.plain, own),
        "place_taken_out": test_record(measured.main_placed, own or measured.above is not None),
        "options": bool((measured.arms.rows["place"] != "open").any()),
        "table": named,
        "mcnemar": {
            "exact": exact.exact,
            "mid_p": exact.mid,
            # It treats items as independent: only the finding's p accounts for shared images.
            "items_independent": len(set(clusters)) == len(clusters),
        }
        if exact
        else None,
        "discordant": discordant,
        "design_effect": measured.plain.design_effect,
        "pairs_needed": {
            f"{drop:g}": pairs_needed(drop, discordant, design_effect=measured.plain.design_effect)
            for drop in DROPS
        },
        "references": {name: test_record(test) for name, test in measured.references.items()},
        "references_own": {
            name: test_record(test, own) for name, test in measured.reference_raw.items()
        },
        "references_right": measured.reference_right,
        "references_ahead": {name: test_record(test) for name, test in measured.ahead.items()},
        "references_ahead_first": {
            name: test_record(test) for name, test in measured.ahead_first.items()
        },
        "liked_places": liked_record(measured.liked, measured.unliked),
        "references_unusable": measured.unusable,
        "categories": (
            categories(pairs, settings.category, settings)
            if settings.category and probe.by_category
            else {}
        ),
        # As the tested effect is: where twins of a kind are harder, every model drops in it.
        "categories_above": (
            categories(measured.above_pairs, settings.category, settings)
            if settings.category and probe.by_category and measured.above_pairs is not None
            else {}
        ),
        "unread": measured.arms.unread,
        "replies": measured.arms.replies,
        "unpaired": measured.arms.unpaired,
        "not_in_benchmark": measured.arms.rows["benchmark_id"].n_unique() - len(pairs),
    }


def _without_unread(
    probe: Probe,
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    measured: PairedMeasurement,
) -> dict[str, Any] | None:
    """The same with unreadable replies left out instead of counted as wrong; None if all were read."""
    if measured.all_read:
        return None
    other = measure(probe, tables, settings, model, leave_out=True)
    if isinstance(other, str):
        return {"not_testable": other}
    own = probe.zero_is_clean
    return {
        **(test_record(other.main) or {}),
        "own": test_record(other.raw, own),
        "references_own": {
            name: test_record(test, own) for name, test in other.reference_raw.items()
        },
    }
