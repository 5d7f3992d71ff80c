"""A probe's finding: effect, test, and everything needed to judge them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import polars as pl

from heldout.detect.behaviour.coverage import pairs_recorded
from heldout.detect.behaviour.measure import Measured, differences, measure
from heldout.detect.behaviour.probe import Probe
from heldout.detect.citations import Citation
from heldout.detect.detector import Detector, Need
from heldout.detect.outcome import Outcome, direction_of, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables, metadata_column
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
)

DROPS = (0.02, 0.05, 0.1, 0.2)  # for which the number of pairs needed is told
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
    for model in tables.answering:
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
    name = probe.effect if measured.above is None else f"{probe.effect}, less the references'"
    return model_finding(
        probe.name,
        tables.benchmark,
        model,
        unit="questions",
        statistic=(f"Δ = accuracy ({probe.second}) - accuracy ({probe.first})", value),
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
            "test": main.method if tested else "none: a clean model shows a difference, too",
            **_details(probe, measured, settings),
            "pairs": probe.counted,
            "pairs_recorded": pairs_recorded(
                probe, tables, settings, [model, *measured.references]
            ),
            "without_unread": _without_unread(probe, tables, settings, model, measured),
            **(more or {}),
        },
    )


def told(test: PairedTest | None, tested: bool = True) -> dict[str, Any] | None:
    """As JSON; ``tested`` is False where no difference is not what a clean model shows."""
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
    found: dict[str, dict[str, Any]] = {}
    for label in sorted(set(labels)):
        part = pairs.filter(labels == label)
        found[label] = {"n": len(part), "clusters": part["cluster"].n_unique()}
        if len(part) >= SMALLEST:
            test = paired_test(
                differences(part),
                part["cluster"].to_list(),
                permutations=settings.permutations,
                seed=settings.seed,
            )
            found[label] |= told(test) or {}
    tested = [label for label in found if "p" in found[label]]
    for label, p in zip(tested, adjust([found[one]["p"] for one in tested], "holm"), strict=True):
        found[label]["p_adjusted"] = p
        found[label]["direction"] = direction_of(p, found[label]["value"])
    return found


def _details(probe: Probe, measured: Measured, settings: DetectSettings) -> dict[str, Any]:
    pairs, clusters = measured.pairs, measured.pairs["cluster"].to_list()
    table = paired_table(pairs["first"].to_numpy(), pairs["second"].to_numpy())
    discordant = float((pairs["first"] != pairs["second"]).mean() or 0.0)  # type: ignore[arg-type]
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
        "accuracy": {
            probe.first: rate(pairs["first"], clusters),
            probe.second: rate(pairs["second"], clusters),
        },
        "own": told(measured.raw, own),
        "plain": told(measured.plain, own),
        "place_taken_out": told(measured.main_placed, own or measured.above is not None),
        "options": bool((measured.arms.rows["place"] != "open").any()),
        "table": named,
        "mcnemar": {
            "exact": exact.exact,
            "mid_p": exact.mid,
            # It takes items for independent: only the finding's p knows of shared images.
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
        "references": {name: told(test) for name, test in measured.references.items()},
        "references_own": {name: told(test, own) for name, test in measured.reference_raw.items()},
        "references_right": measured.reference_right,
        "references_ahead": {name: told(test) for name, test in measured.ahead.items()},
        "references_unusable": measured.unusable,
        "categories": (
            categories(pairs, settings.category, settings)
            if settings.category and probe.by_category
            else {}
        ),
        "unread": measured.arms.unread,
        "replies": measured.arms.replies,
        "unpaired": measured.arms.unpaired,
        "not_in_benchmark": measured.arms.rows["benchmark_id"].n_unique() - len(pairs),
    }


def _without_unread(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, model: str, measured: Measured
) -> dict[str, Any] | None:
    """The same with unreadable replies left out instead of counted as wrong; None if all were read."""
    if measured.all_read:
        return None
    other = measure(probe, tables, settings, model, leave_out=True)
    if isinstance(other, str):
        return {"not_testable": other}
    return told(other.main)
