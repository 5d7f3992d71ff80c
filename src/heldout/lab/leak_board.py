"""Recall per kind of planted leak and precision per degree, each with its counts and interval."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from heldout.evidence import BY_DIGEST, COPIES, Relation
from heldout.lab.leak_rows import STRANGER
from heldout.lab.result import Rate, Strict, rate
from heldout.scenes import KINDS

SCHEMA_VERSION = 1
PICTURES, WORDS = "pictures", "words"
COPY = "verified copy"
_GRADED = ("soft", "hard")
# What is said of a pair, from the weakest to the strongest: of its own picture, and of others.
PICTURE_LEVELS: dict[str, tuple[pl.Expr, str]] = {
    "listed": (pl.col("relation") != "", "other_pairs"),
    "soft or hard": (pl.col("degree").is_in(_GRADED), "other_graded"),
    "hard": (pl.col("degree") == "hard", "other_hard"),
    "left to people": (pl.col("relation") == Relation.UNDECIDED, "other_undecided"),
    COPY: (pl.col("relation").is_in(COPIES), "other_copies"),
}
# Equal bytes and pixels are right by themselves: what registration alone calls a copy is what can be wrong.
REGISTERED = f"{COPY}, by registration alone"
_REGISTERED = PICTURE_LEVELS[COPY][0] & ~pl.col("method").is_in(BY_DIGEST)
WORD_LEVELS: dict[str, tuple[pl.Expr, str]] = {
    "counts (soft or hard)": (pl.col("text_degree").is_in(_GRADED), "other_texts"),
    "hard": (pl.col("text_degree") == "hard", "other_text_hard"),
}


class PictureRecall(Strict):
    world: str
    kind: str
    levels: dict[str, Rate]
    label: Rate | None  # the relation of the answers is the planted one; None without an answer


class WordRecall(Strict):
    world: str
    kind: str
    testable: Rate  # items whose words some method could find
    listed: Rate
    counts: Rate
    of_testable: Rate  # counted, of those that could be
    claimed: Rate  # question and answer word for word: the claim survives
    answer: Rate | None  # of those listed: the relation of the answers is the planted one


class Alarms(Strict):
    """Corpus items that are nobody's copy and hold nobody's words, and what is said of them."""

    world: str
    kind: str
    pictures: dict[str, Rate]
    words: dict[str, Rate]


class Precision(Strict):
    world: str
    of: str  # pictures, words
    level: str
    right: Rate  # pairs that were planted, of the pairs said so; items of the corpus are the units


class LeakBoard(Strict):
    schema_version: int = SCHEMA_VERSION
    seeds: int
    pictures: list[PictureRecall]
    words: list[WordRecall]
    alarms: list[Alarms]
    precision: list[Precision]


def leak_board(rows: pl.DataFrame) -> LeakBoard:
    names = [kind.name for kind in KINDS]
    worlds = rows["world"].unique(maintain_order=True).to_list()
    pictures, words, alarms, precision = [], [], [], []
    for world in worlds:
        here = rows.filter(pl.col("world") == world)
        for kind in (*names, STRANGER):
            mine = here.filter(pl.col("kind") == kind)
            if mine.is_empty():
                continue
            if mine["found_by"][0] is not None:
                pictures.append(_pictures(world, kind, mine))
            if mine["words"][0] is not None:
                words.append(_words(world, kind, mine))
            if mine["found_by"][0] is None and mine["words"][0] is None:
                alarms.append(_alarms(world, kind, mine))
        precision += _precision(world, here)
    return LeakBoard(
        seeds=rows["seed"].n_unique(),
        pictures=pictures,
        words=words,
        alarms=alarms,
        precision=precision,
    )


def _pictures(world: str, kind: str, mine: pl.DataFrame) -> PictureRecall:
    levels = {name: _share(mine, own) for name, (own, _) in PICTURE_LEVELS.items()}
    said = pl.col("label_said") == pl.col("label_relation")
    answered = mine["label_relation"][0] is not None
    label = _share(mine, said) if answered else None
    return PictureRecall(world=world, kind=kind, levels=levels, label=label)


def _words(world: str, kind: str, mine: pl.DataFrame) -> WordRecall:
    listed = pl.col("text_degree") != ""
    counts, testable = pl.col("text_degree").is_in(_GRADED), pl.col("untestable") == ""
    claimed = (pl.col("text_degree") == "hard") & (pl.col("text_relation") == "same item")
    return WordRecall(
        world=world,
        kind=kind,
        testable=_share(mine, testable),
        listed=_share(mine, listed),
        counts=_share(mine, counts),
        of_testable=_share(mine.filter(testable), counts),
        claimed=_share(mine, claimed),
        answer=_share(mine.filter(listed), pl.col("answer_said") == pl.col("label_relation")),
    )


def _alarms(world: str, kind: str, mine: pl.DataFrame) -> Alarms:
    """Said of the pair it was made from, or of any other."""
    shown = mine.filter("pictured")
    return Alarms(
        world=world,
        kind=kind,
        pictures={
            name: _share(shown, own | (pl.col(others) > 0))
            for name, (own, others) in PICTURE_LEVELS.items()
        },
        words={
            name: _share(mine, own | (pl.col(others) > 0))
            for name, (own, others) in WORD_LEVELS.items()
        },
    )


def _precision(world: str, here: pl.DataFrame) -> list[Precision]:
    precisions = []
    for of, levels, planted in (
        (
            PICTURES,
            {**PICTURE_LEVELS, REGISTERED: (_REGISTERED, "other_copies")},
            pl.col("found_by").is_not_null(),
        ),
        (WORDS, WORD_LEVELS, pl.col("words").is_not_null()),
    ):
        for level, (own, others) in levels.items():
            counted = here.select(
                hits=(own & planted).cast(pl.Int64),
                pairs=own.cast(pl.Int64) + pl.col(others),
            )
            right = rate(counted["hits"].to_numpy(), counted["pairs"].to_numpy(), _units(here))
            precisions.append(Precision(world=world, of=of, level=level, right=right))
    return precisions


def _share(frame: pl.DataFrame, condition: pl.Expr) -> Rate:
    """Every unit is one item of a corpus, made from a picture of its own: exact intervals."""
    hits = frame.select(condition.fill_null(False).cast(pl.Int64).alias("hit"))["hit"].to_numpy()
    return rate(hits, [1] * len(hits), _units(frame))


def _units(frame: pl.DataFrame) -> Sequence[str]:
    message = pl.format("{}/{}/{}", "world", "seed", "corpus_id")
    return frame.select(message.alias("unit"))["unit"].to_list()
