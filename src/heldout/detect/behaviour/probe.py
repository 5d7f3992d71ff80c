"""A probe: two arms of one paired design, and how its difference reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError
from heldout.model import BOUND

# The answers of one model as rows for the comparison of two arms.
#
# A row is one item in one form: ``released`` says which arm, ``right`` is the share of draws answered right,
# ``place`` position of the right option, or which of yes and no it was. Unreadable replies count as wrong, or
# are left out: every finding is made both ways.


ACCURACY = "accuracy"  # the mean of right and wrong
ORIGINAL = "original"
OUTCOMES = ("right", "wrong", "unparsed", "refused")
UNREAD = ("unparsed", "refused")
COLUMNS = ("benchmark_id", "variant", "released", "right", "place")
POLES = ("yes", "no", "true", "false")


def asked(
    tables: ScoreTables, model: str, wanted: Callable[[str], bool], *, leave_out: bool = False
) -> pl.DataFrame:
    """One model's answers in the wanted variants, checked, one row per item, variant and draw."""
    if tables.answers is None:
        return pl.DataFrame()
    variants, everything = _answers_of(tables, model)
    names = tuple(name for name in variants if wanted(name))
    known = (
        "asked",
        model,
        names,
        leave_out,
    )  # by other probes, and with references by other models
    if known not in tables.memo:
        mine = everything.filter(pl.col("variant").is_in(names))
        tables.memo[known] = _checked(mine, model, leave_out)
    answers: pl.DataFrame = tables.memo[known]
    return answers


def _answers_of(tables: ScoreTables, model: str) -> tuple[list[str], pl.DataFrame]:
    """Its variants and its rows, found once: a run has many models, and many probes look at each."""
    key = ("answers of", model)
    if key not in tables.memo:
        assert tables.answers is not None
        mine = tables.answers.filter(pl.col("model") == model)
        tables.memo[key] = (mine["variant"].unique(maintain_order=True).to_list(), mine)
    variants_and_rows: tuple[list[str], pl.DataFrame] = tables.memo[key]
    return variants_and_rows


def _checked(mine: pl.DataFrame, model: str, leave_out: bool) -> pl.DataFrame:
    key = ["benchmark_id", "variant", "draw"]
    if mine.select(key).is_duplicated().any():
        raise InputError(
            f"the answers table has two rows for one item, variant and draw of {model}: ask it again"
        )
    strange = set(mine["outcome"].unique()) - set(OUTCOMES)
    if strange:
        raise InputError(
            f"the answers table has the outcome {sorted(map(str, strange))[0]!r} for {model}; expected "
            f"{', '.join(OUTCOMES)}"
        )
    if leave_out:
        mine = readable(mine)
    return mine.with_columns(
        (pl.col("outcome") == "right").cast(pl.Float64).alias("right"),
        pl.when(pl.col("options").list.len() > 0)
        .then(pl.col("gold") + "/" + pl.col("options").list.len().cast(pl.String))
        .otherwise(_pole())
        .fill_null("open")
        .alias("place"),
    )


def readable(answers: pl.DataFrame) -> pl.DataFrame:
    """Without replies that could not be read."""
    return answers if answers.is_empty() else answers.filter(~pl.col("outcome").is_in(UNREAD))


def none_readable(answers: pl.DataFrame) -> str:
    """Why nothing can be compared: who says nothing is neither right less often nor wrong."""
    models, variants = (", ".join(sorted(answers[name].unique())) for name in ("model", "variant"))
    return (
        f"none of the {len(answers):,} replies of {models} ({variants}) can be read: ask again with a longer limit, "
        "or with answers in tags"
    )


def _pole() -> pl.Expr:
    """A model that always says yes is right where yes is right: a favourite answer is a favourite place."""
    gold_text = pl.col("gold").str.to_lowercase().str.strip_chars(" .")
    return pl.when(gold_text.is_in(POLES)).then(gold_text).otherwise(pl.lit("open"))


def in_arms(answers: pl.DataFrame, released: pl.Expr) -> pl.DataFrame:
    """Draws averaged; only items that were asked in both arms."""
    rows = (
        answers.with_columns(released.alias("released"))
        .group_by("benchmark_id", "variant", "released", maintain_order=True)
        .agg(pl.col("right").mean(), pl.col("place").first())
    )
    both = rows.group_by("benchmark_id").agg(pl.col("released").n_unique() == 2)
    kept = both.filter(pl.col("released"))["benchmark_id"]
    return rows.filter(pl.col("benchmark_id").is_in(kept.to_list())).select(COLUMNS)


def templates(answers: pl.DataFrame) -> pl.DataFrame:
    """By item the templates it was asked with; a benchmark of several kinds of item has several."""
    named = answers.filter(pl.col("template").fill_null("") != "")
    return named.group_by("benchmark_id").agg(pl.col("template").unique().sort())


def unlike_templates(first: pl.DataFrame, second: pl.DataFrame) -> str | None:
    """Why two arms may not be compared: both have to see the identical prompt."""
    names = {*first["template"].unique(), *second["template"].unique()} - {None, ""}
    if len(names) < 2:
        return None
    both = templates(first).join(templates(second), on="benchmark_id", suffix="_other")
    unlike = both.filter(pl.col("template") != pl.col("template_other")).sort("benchmark_id")
    if unlike.is_empty():
        return None
    sides = (", ".join(unlike[name][0]) for name in ("template", "template_other"))
    return (
        f"{len(unlike):,} items were asked with another template in one arm ({' and '.join(sides)}): ask "
        f"both with the same"
    )


def unread(answers: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Unreadable replies by variant and kind; variants without any are not listed."""
    bad = answers.filter(pl.col("outcome").is_in(UNREAD))
    counted = bad.group_by("variant", "outcome").len().sort("variant", "outcome")
    counts: dict[str, dict[str, int]] = {}
    for variant, outcome, count in counted.iter_rows():
        counts.setdefault(variant, {})[outcome] = count
    return counts


@dataclass(frozen=True)
class Arms:
    """Rows of both arms on the items that have both; what could not be paired or read is counted."""

    rows: pl.DataFrame
    unpaired: int
    unread: dict[str, dict[str, int]]
    replies: int
    answers: pl.DataFrame  # everything that was answered, readable or not
    changed: frozenset[str] = frozenset()  # items that were answered in the second form


#: tables, settings, model, whether unreadable replies are left out
ArmsOf = Callable[[ScoreTables, DetectSettings, str, bool], Arms | str]


@dataclass(frozen=True)
class Probe:
    """``first`` less ``second``: higher means more likely seen."""

    name: str
    first: str
    second: str
    effect: str
    arms: ArmsOf
    blind_to: list[str]
    #: is no difference what a clean model shows? Where it is not, only references make a test
    zero_is_clean: bool = True
    #: is the effect itself adjusted for the place of the right option?
    placed: bool = False
    #: may the second form be wrong, so that better models lose more by it?
    second_may_be_wrong: bool = False
    #: items known to have a second form, whether or not an answer to it was recorded
    known: Callable[[ScoreTables], frozenset[str]] = lambda tables: frozenset()
    #: the name of the second form in counts
    counted: str = "changed items"
    #: is it broken down by the metadata field that was asked for?
    by_category: bool = False
    #: what either arm is the mean of
    measures: str = ACCURACY

    def read(
        self, tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool = False
    ) -> Arms | str:
        """Its arms, read once: every model of a run is compared with the same references."""
        key = ("arms", self.arms, settings, model, leave_out)
        if key not in tables.memo:
            tables.memo[key] = self.arms(tables, settings, model, leave_out)
        known: Arms | str = tables.memo[key]
        return known


def two_variants(first: str, wanted: Callable[[str], bool], lacking: str) -> ArmsOf:
    """The item in one form, and in any of some others."""

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        everything = asked(tables, model, lambda name: name == first or wanted(name))
        mine = readable(everything) if leave_out else everything
        return made_arms(everything, mine, pl.col("variant") == first, lacking)

    return arms


def made_arms(
    everything: pl.DataFrame, kept: pl.DataFrame, released: pl.Expr, lacking: str
) -> Arms | str:
    """``everything`` that was answered, and what is ``kept`` of it for the comparison."""
    if everything.is_empty():
        return lacking
    first, second = (everything.filter(side) for side in (released, ~released))
    if first.is_empty() or second.is_empty():
        return lacking
    for side in (first, second):
        if readable(side).is_empty():
            return none_readable(side)
    unlike = unlike_templates(first, second)
    if unlike is not None:
        return unlike
    rows = in_arms(kept, released)
    unpaired = everything["benchmark_id"].n_unique() - rows["benchmark_id"].n_unique()
    changed = frozenset(second["benchmark_id"])
    return Arms(rows, unpaired, unread(everything), len(everything), everything, changed)


# Places that a model likes: it is right there more often, whatever is asked.
#
# Adjusting for places takes the same preference for every item. Who picks A only when unsure prefers it on hard
# items alone, and a release that puts their right answers there looks like memory; so items whose released place
# is one that the model likes are left out for once. Memory of answers does not help where items were changed:
# what it likes is seen in the second form.


LIKED = 2.0  # standard errors above its accuracy at the other places


def liked_places(rows: pl.DataFrame) -> list[str]:
    """Places of the right option at which this model does clearly better in the second form."""
    changed = rows.filter(~pl.col("released"), pl.col("place") != "open")
    liked = []
    for place in sorted(changed["place"].unique()):
        here, others = (
            changed.filter(side)["right"].to_numpy()
            for side in (pl.col("place") == place, pl.col("place") != place)
        )
        if len(here) < 2 or len(others) < 2:
            continue
        # One more right and one more wrong reply on either side: few that are all right are not certain.
        error = sum((side.var() + 1 / len(side)) / (len(side) + 2) for side in (here, others))
        if here.mean() - others.mean() > LIKED * error**0.5:
            liked.append(place)
    return liked


def without_liked(rows: pl.DataFrame, liked: Sequence[str]) -> pl.DataFrame:
    """Without the items whose right option was released at one of these places."""
    left_out = rows.filter(pl.col("released"), pl.col("place").is_in(list(liked)))["benchmark_id"]
    return rows.filter(~pl.col("benchmark_id").is_in(left_out.to_list()))


# Of the pairs that could have been asked, how many have both answers recorded?
#
# A file without the right answers to twins looks like memory, and one without the wrong answers looks clean.
# What could have been asked is what any model of the run answered in the second form, and what is known to have
# one; items that no model was asked about are outside the plan.


Pairs = frozenset[tuple[str, str]]  # items, and the variant beside the original


@dataclass(frozen=True)
class _Everybody:
    """``pairs`` by model; ``items`` that are known to have a second form."""

    pairs: dict[str, Pairs]
    items: frozenset[str]


def pairs_recorded(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, models: Iterable[str]
) -> dict[str, dict[str, int]]:
    """By model the pairs that are recorded, and those possible in the variants it was asked in."""
    key = _everybody_key(probe, settings)
    if key not in tables.memo:
        tables.memo[key] = _everybody(probe, tables, settings)
    everybody: _Everybody = tables.memo[key]
    union = frozenset[tuple[str, str]]().union(*everybody.pairs.values())
    counts = {}
    for model in models:
        mine = everybody.pairs[model]
        variants = {variant for _, variant in mine}
        possible = {entry for entry in union if entry[1] in variants}
        alone = everybody.items - {item for item, _ in possible}
        counts[model] = {"recorded": len(mine), "possible": len(possible) + len(alone)}
    return counts


def _everybody_key(probe: Probe, settings: DetectSettings) -> tuple[Any, ...]:
    return ("pairs", probe.name, probe.second, settings.bases)


def pairs_missing(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, models: Iterable[str]
) -> float:
    """The share of the possible pairs that the comparison of all these models lacks."""
    counts = pairs_recorded(probe, tables, settings, models)
    everybody: _Everybody = tables.memo[_everybody_key(probe, settings)]
    compared = frozenset[tuple[str, str]].intersection(*(everybody.pairs[name] for name in counts))
    variants = {variant for _, variant in compared}
    union = frozenset[tuple[str, str]]().union(*everybody.pairs.values())
    possible = {entry for entry in union if entry[1] in variants}
    alone = everybody.items - {item for item, _ in possible}
    return 1.0 - len(compared) / max(1, len(possible) + len(alone))


def with_options(tables: ScoreTables) -> frozenset[str]:
    """Items whose options can be shown in another order."""
    if tables.answers is None:
        return frozenset()
    asked = tables.answers.filter(pl.col("variant") == ORIGINAL, pl.col("options").list.len() > 1)
    shown = asked.unique("benchmark_id").select("benchmark_id", "options").iter_rows()
    return frozenset(
        item
        for item, options in shown
        if not any(BOUND.search(option.strip()) for option in options)
    )


def _everybody(probe: Probe, tables: ScoreTables, settings: DetectSettings) -> _Everybody:
    answered = [(name, probe.read(tables, settings, name)) for name in tables.answering]
    arms_of = {name: arms for name, arms in answered if isinstance(arms, Arms)}
    mine = frozenset(tables.items["benchmark_id"])
    pairs = {}
    for name, arms in arms_of.items():
        second = arms.rows.filter(~pl.col("released")).select("benchmark_id", "variant")
        pairs[name] = frozenset(row for row in second.iter_rows() if row[0] in mine)
    changed = frozenset[str]().union(*(arms.changed for arms in arms_of.values()))
    asked = frozenset[str]().union(*(arms.answers["benchmark_id"] for arms in arms_of.values()))
    return _Everybody(pairs, (changed | probe.known(tables)) & asked & mine)
