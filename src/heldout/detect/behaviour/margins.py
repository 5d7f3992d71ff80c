"""twin-margin and option-margin: probabilities of answers where twin-drop and option-order count right ones.

An item that is nearly answered otherwise says as much as the reply alone hides. twin-margin is, on the original
and on the twin, the probability of the right answer less that of the other picture's answer. Skill raises both,
and the difference of the two cancels it; memory of the old answer raises the first and lowers the second.
option-margin is the probability of the right option, in the released order and in another.

Probabilities are of the options' letters, scaled to sum to 1, so that a model that likes to begin otherwise is
compared by what it prefers. Where no model gave them (open items, or twins that do not offer both answers),
twin-margin reads the scores of both answers on both pictures, scaled in the same way. They are compared as
probabilities, not as logarithms: a sharper model has larger log-probabilities on both sides, and a few of them
outweigh all other items (docs/behaviour.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from heldout.benchmark import letter
from heldout.detect.behaviour import option_order, twin_drop
from heldout.detect.behaviour.compare import FEW, compare, probe_detector, test_record
from heldout.detect.behaviour.probe import (
    COLUMNS,
    ORIGINAL,
    POLES,
    Arms,
    ArmsOf,
    Probe,
    asked,
    readable,
)
from heldout.detect.behaviour.twin_drop import TWIN, of_twins, twins_of
from heldout.detect.behaviour.twin_memory import LEAST_OPTIONS, old_answers, place_of
from heldout.detect.detector import PARK, SONG, TWIN_SCORES, Need
from heldout.detect.finding import Finding, NotRecorded, Outcome
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import PairedTest, cluster_mean, paired_test

TWIN_NAME, OPTION_NAME = "twin-margin", "option-margin"
NOT_RECORDED = NotRecorded(
    "needs the log-probabilities of the options: heldout ask --choice-logprobs, with the variants it reads"
)
NO_PROBABILITIES = NotRecorded(
    "needs the probabilities of both answers on originals and twins: heldout ask --choice-logprobs --variants "
    "original,twin=…, or of open items heldout score --variants twin=…"
)
NOT_OFFERED = NotRecorded(
    "no original and its twin both offer the answers of both: of open items, score both answers on both pictures "
    "(heldout score --variants twin=…)"
)
SCORED = "scored"  # the rule of answers made of scores
INSTRUMENT = ("backend", "dtype")  # scores are never compared across these
GRADED = {"benchmark_id": pl.String, "variant": pl.String, "right": pl.Float64, "place": pl.String}
#: of one row of answers: place of the right option, and of the one it is compared with (None: of no one)
Places = Callable[[dict[str, Any]], tuple[int, int | None] | None]


# From the letters' log-probabilities to rows of a probe.


def chances(logprobs: Sequence[float | None] | None, count: int) -> Floats | None:
    """Probabilities of ``count`` options. A letter that a server did not list is at most as likely as the
    least likely one that it listed. None where nothing is recorded."""
    known = [value for value in logprobs or () if value is not None]
    if not known or len(logprobs or ()) != count:
        return None
    least = min(known)
    values = np.asarray([least if value is None else value for value in logprobs or ()])
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _rows(answers: pl.DataFrame, places: Places) -> pl.DataFrame:
    """``right``: between 0 and 1, the probability of the right option; where it is compared with another,
    half of 1 and the difference of the two. Draws are averaged."""
    if "choice_logprobs" not in answers.columns:
        return pl.DataFrame(schema=GRADED)
    names = ("benchmark_id", "variant", "draw", "gold", "options", "rule", "choice_logprobs")
    known = answers.select(name for name in names if name in answers.columns)
    rows = []
    for row in known.sort("benchmark_id", "variant", "draw").iter_rows(named=True):
        options = row["options"] or ()
        probabilities = chances(row["choice_logprobs"], len(options))
        where = places(row) if probabilities is not None else None
        if probabilities is None or where is None:
            continue
        right, other = where
        value = probabilities[right]
        label = f"{letter(right)}/{len(options)}"
        if other is not None:
            value = (1.0 + value - probabilities[other]) / 2
            label = f"{letter(right)} and {letter(other)}/{len(options)}"
        if row.get("rule") == SCORED:  # there is no place, but a model may like to say yes
            text = options[right].lower().strip(" .")
            label = text if text in POLES else "open"
        rows.append((row["benchmark_id"], row["variant"], float(value), label))
    graded = pl.DataFrame(rows, schema=GRADED, orient="row")
    return graded.group_by("benchmark_id", "variant", maintain_order=True).agg(
        pl.col("right").mean(), pl.col("place").first()
    )


def _graded(counted: ArmsOf, places: Callable[[ScoreTables], Places]) -> ArmsOf:
    """The arms of a probe that counts right answers, with probabilities instead."""

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        both = counted(tables, settings, model, leave_out)
        if isinstance(both, str):
            return both
        at = places(tables)
        shown = both.answers.unique(["benchmark_id", "variant"])
        lacking = {row["benchmark_id"] for row in shown.iter_rows(named=True) if at(row) is None}
        offered = frozenset(shown["benchmark_id"]) - lacking
        if not offered:
            return NOT_OFFERED
        answers = both.answers.filter(pl.col("benchmark_id").is_in(list(offered)))
        if leave_out:
            answers = readable(answers)
        rows = both.rows.drop("right", "place").join(
            _rows(answers, at), on=["benchmark_id", "variant"]
        )
        sides = rows.group_by("benchmark_id").agg(pl.col("released").n_unique() == 2)
        whole = sides.filter(pl.col("released"))["benchmark_id"].to_list()
        rows = rows.filter(pl.col("benchmark_id").is_in(whole)).select(COLUMNS)
        if rows.is_empty():
            return NOT_RECORDED
        return replace(
            both,
            rows=rows,
            unpaired=both.unpaired + both.rows["benchmark_id"].n_unique() - len(whole),
            changed=both.changed & offered,
        )

    return arms


# Twins


TWIN_BLIND_TO = [
    *twin_drop.BLIND_TO,
    "open items, and twins that do not offer the old answer or originals that do not offer the new one, unless both "
    "answers were scored on both pictures",
]


def with_scores(tables: ScoreTables, twin: str) -> ScoreTables:
    """With answers that are made of scores: old and new answer as two options, by their log-probabilities.

    Of one item all models are measured in the same way: by the options' letters, where any model gave them.
    """
    if tables.twin_scores is None:
        return tables
    key = ("with scores of twins", twin)
    if key not in tables.memo:
        scored = tables.twin_scores.filter(pl.col("variant") == twin)
        answers, lettered = tables.answers, _lettered(tables, twin)
        rows = _as_answers(scored.filter(~pl.col("benchmark_id").is_in(list(lettered))), tables)
        if answers is not None:
            named = pl.col("benchmark_id").is_in(rows["benchmark_id"].unique().to_list())
            rows = pl.concat([answers.filter(~named), rows], how="diagonal_relaxed")
        tables.memo[key] = replace(tables, answers=rows)
    both: ScoreTables = tables.memo[key]
    return both


def _lettered(tables: ScoreTables, twin: str) -> frozenset[str]:
    """Items of which some model gave the probabilities of both answers' letters, on both pictures."""
    answers = tables.answers
    if answers is None or "choice_logprobs" not in answers.columns:
        return frozenset()
    at = _places_of_twins(tables, twin)
    rows = answers.filter(
        pl.col("variant").is_in([ORIGINAL, twin]), pl.col("choice_logprobs").list.len() > 0
    ).unique(["benchmark_id", "variant"])
    shown = Counter(row["benchmark_id"] for row in rows.iter_rows(named=True) if at(row))
    return frozenset(item for item, sides in shown.items() if sides == 2)


def _as_answers(scored: pl.DataFrame, tables: ScoreTables) -> pl.DataFrame:
    """Two rows an item. Models scored with other backends are models asked with other templates: neither compares."""
    instruments = {
        model: ", ".join([SCORED, *(str(record[k]) for k in INSTRUMENT if k in record)])
        for model, record in tables.identities.items()
    }
    options = pl.concat_list("old_answer", "new_answer")
    sides = [
        scored.select(
            "benchmark_id",
            "model",
            pl.lit(variant).alias("variant") if variant else pl.col("variant"),
            pl.lit(0, pl.Int32).alias("draw"),
            options.alias("options"),
            pl.lit(gold).alias("gold"),
            pl.lit("").alias("reply"),
            pl.when(right > wrong)
            .then(pl.lit("right"))
            .otherwise(pl.lit("wrong"))
            .alias("outcome"),
            pl.lit(SCORED).alias("rule"),
            pl.concat_list(f"{picture}_old", f"{picture}_new").alias("choice_logprobs"),
            pl.col("model").replace_strict(instruments, default=SCORED).alias("template"),
        )
        for picture, variant, gold, right, wrong in (
            ("original", ORIGINAL, "A", pl.col("original_old"), pl.col("original_new")),
            ("twin", None, "B", pl.col("twin_new"), pl.col("twin_old")),
        )
    ]
    return pl.concat(sides)


def _places_of_twins(tables: ScoreTables, twin: str) -> Places:
    """The right answer, and the answer that is right on the other picture."""
    key = ("answers to both pictures", twin)
    if key not in tables.memo:
        old = old_answers(tables)
        new: dict[str, str] = {}
        if tables.answers is not None:
            shown = tables.answers.filter(pl.col("variant") == twin).unique("benchmark_id")
            for item, gold, options in shown.select("benchmark_id", "gold", "options").iter_rows():
                texts = {letter(place): option for place, option in enumerate(options or ())}
                new[item] = texts.get(gold, "")
        tables.memo[key] = old, new
    old, new = tables.memo[key]

    def places(row: dict[str, Any]) -> tuple[int, int] | None:
        options, item = tuple(row["options"] or ()), row["benchmark_id"]
        letters = [letter(place) for place in range(len(options))]
        other = place_of((old if row["variant"] == twin else new).get(item, ""), options)
        if other is None or row["gold"] not in letters or letters[other] == row["gold"]:
            return None
        return letters.index(row["gold"]), other

    return places


@cache
def probe_for(twin: str = TWIN) -> Probe:
    counted = twin_drop.probe_for(twin)
    graded = _graded(counted.read, lambda tables: _places_of_twins(tables, twin))

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        both = graded(with_scores(tables, twin), settings, model, leave_out)
        return NO_PROBABILITIES if both == twin_drop.LACKING else both

    return replace(
        counted,
        name=TWIN_NAME,
        effect=f"drop of the margin of the right answer from {ORIGINAL} to {twin}",
        arms=arms,
        blind_to=TWIN_BLIND_TO,
        known=lambda tables: frozenset(),
        counted="twins with probabilities of both answers",
        measures="margin",
    )


def _find_twins(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        for twin in twins_of(tables, model):
            outcome = compare(probe_for(twin), tables, settings, model)
            if isinstance(outcome, Finding):
                details = {
                    **outcome.details,
                    **_beside(tables, settings, model, twin, list(outcome.details["references"])),
                }
                outcome = of_twins(outcome.model_copy(update={"details": details}), tables, twin)
            yield outcome


def _beside(
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    twin: str,
    references: Sequence[str],
) -> dict[str, Any]:
    """``wrong_options``: the old answer's share of what the twin's wrong options get, less the references';
    ``nats``: the margins as log-probabilities, original and twin added up, less the references'."""
    mine, others = (
        _beliefs(tables, model, twin),
        [_beliefs(tables, name, twin) for name in references],
    )
    details: dict[str, Any] = {}
    for column in ("old_share", "nats"):
        joined = mine.select("benchmark_id", value=pl.col(column)).drop_nulls()
        for index, rows in enumerate(others):
            theirs = rows.select("benchmark_id", pl.col(column).alias(f"r{index}")).drop_nulls()
            joined = joined.join(theirs, on="benchmark_id")
        if others:
            average = pl.mean_horizontal([f"r{index}" for index in range(len(others))])
            joined = joined.with_columns(value=pl.col("value") - average)
        known = tables.items.select("benchmark_id", "cluster", "position")
        ordered = known.join(joined, on="benchmark_id").sort("position")
        values, clusters = ordered["value"].to_numpy(), ordered["cluster"].to_list()
        if not others or len(set(clusters)) < FEW:
            details["wrong_options" if column == "old_share" else column] = None
        elif column == "old_share":
            details["wrong_options"] = test_record(_tested(values, clusters, settings))
        else:
            mean, error, interval = cluster_mean(values, clusters)
            details[column] = {
                "value": mean,
                "low": interval.low,
                "high": interval.high,
                "z": mean / error if error > 0 else 0.0,
            }
    return details


def _tested(values: Floats, clusters: list[str], settings: DetectSettings) -> PairedTest:
    return paired_test(values, clusters, permutations=settings.permutations, seed=settings.seed)


def _beliefs(tables: ScoreTables, model: str, twin: str) -> pl.DataFrame:
    """By item: ``old_share`` on the twin (null with two options), ``nats`` of both pictures together."""
    key = ("beliefs", twin, model)
    if key not in tables.memo:
        both = with_scores(tables, twin)
        places = _places_of_twins(both, twin)
        unchanged = tables.unchanged.get(twin, frozenset())
        answers = asked(both, model, lambda name: name in (ORIGINAL, twin))
        shares: dict[str, list[float]] = {}
        nats: dict[tuple[str, str], list[float]] = {}
        rows = answers.iter_rows(named=True) if "choice_logprobs" in answers.columns else ()
        for row in rows:
            item, options = row["benchmark_id"], row["options"] or ()
            probabilities = chances(row["choice_logprobs"], len(options))
            where = places(row) if probabilities is not None else None
            if probabilities is None or where is None or item in unchanged:
                continue
            right, other = where
            gap = float(np.log(probabilities[right]) - np.log(probabilities[other]))
            nats.setdefault((item, row["variant"]), []).append(gap)
            wrong = 1.0 - probabilities[right]
            if row["variant"] == twin and len(options) >= LEAST_OPTIONS and wrong > 0:
                shares.setdefault(item, []).append(float(probabilities[other] / wrong))
        summed = {
            item: float(np.mean(nats[item, ORIGINAL]) - np.mean(nats[item, twin]))
            for item, variant in nats
            if variant == twin and (item, ORIGINAL) in nats
        }
        items = sorted({*shares, *summed})
        tables.memo[key] = pl.DataFrame(
            {
                "benchmark_id": items,
                "old_share": [float(np.mean(shares[i])) if i in shares else None for i in items],
                "nats": [summed.get(item) for item in items],
            },
            schema={"benchmark_id": pl.String, "old_share": pl.Float64, "nats": pl.Float64},
        )
    beliefs: pl.DataFrame = tables.memo[key]
    return beliefs


TWIN_MARGIN = replace(
    probe_detector(
        probe_for(),
        "probabilities of old and new answer: does the margin drop on the twin?",
        variants=(ORIGINAL, f"{TWIN}|{TWIN}-*"),
        find=_find_twins,
        requires=(Need.CHOICES,),
        citations=(PARK,),
    ),
    also=(TWIN_SCORES,),
)


# Options


def _places_of_options(row: dict[str, Any]) -> tuple[int, None] | None:
    letters = [letter(place) for place in range(len(row["options"] or ()))]
    return (letters.index(row["gold"]), None) if row["gold"] in letters else None


OPTION_PROBE = replace(
    option_order.PROBE,
    name=OPTION_NAME,
    effect="gain in probability of the right answer from the released order of options, adjusted for answer position",
    arms=_graded(option_order.PROBE.read, lambda tables: _places_of_options),
    measures="probability",
)
OPTION_MARGIN = probe_detector(
    OPTION_PROBE,
    "is the right option likelier in the released order?",
    variants=option_order.DETECTOR.variants,
    asks=option_order.DETECTOR.asks,
    requires=(Need.CHOICES,),
    citations=(SONG,),
)
