"""What one model answered, as rows that two arms of a paired design are compared over.

A row is one item in one form: ``released`` says which arm, ``right`` is the share of draws answered right,
``place`` where the right option stood, or which of yes and no it was. Replies nobody can read count as
wrong, or are left out: every finding is made both ways.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from heldout.detect.tables import ScoreTables
from heldout.errors import InputError

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
    mine = tables.answers.filter(pl.col("model") == model)
    names = [name for name in mine["variant"].unique().to_list() if wanted(name)]
    mine = mine.filter(pl.col("variant").is_in(names))
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
        mine = mine.filter(~pl.col("outcome").is_in(UNREAD))
    return mine.with_columns(
        (pl.col("outcome") == "right").cast(pl.Float64).alias("right"),
        pl.when(pl.col("options").list.len() > 0)
        .then(pl.col("gold") + "/" + pl.col("options").list.len().cast(pl.String))
        .otherwise(_pole())
        .fill_null("open")
        .alias("place"),
    )


def _pole() -> pl.Expr:
    """Who says yes to everything is right where yes is: a favourite answer is a favourite place."""
    said = pl.col("gold").str.to_lowercase().str.strip_chars(" .")
    return pl.when(said.is_in(POLES)).then(said).otherwise(pl.lit("open"))


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
    """Replies that nobody can read, by variant and kind; variants without any are not named."""
    bad = answers.filter(pl.col("outcome").is_in(UNREAD))
    counted = bad.group_by("variant", "outcome").len().sort("variant", "outcome")
    found: dict[str, dict[str, int]] = {}
    for variant, outcome, count in counted.iter_rows():
        found.setdefault(variant, {})[outcome] = count
    return found
