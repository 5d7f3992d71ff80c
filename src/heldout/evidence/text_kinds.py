"""Which kind of text overlap an item has: what agrees, and whether it is about the same picture."""

from __future__ import annotations

import polars as pl

from heldout.overlap import (
    COPIES,
    EDITED,
    PARAPHRASE,
    SAME_CAPTION,
    SAME_ITEM,
    SAME_QUESTION,
    UNCOMPARED,
    Modality,
    beside,
)

QUESTION_ANSWER_SAME_IMAGE = "identical question and answer, same image"
QUESTION_SAME_IMAGE = "identical question, same image"
PARAPHRASE_SAME_IMAGE = "paraphrase candidate, same image"
QUESTION_ANSWER_UNCOMPARED = "identical question and answer, images that could not be compared"
QUESTION_ANSWER_OTHER_IMAGE = "identical question and answer, another image"
QUESTION_OTHER_IMAGE = "identical question, another image"
PARAPHRASE_OTHER_IMAGE = "paraphrase candidate, another image"
#: from the gravest down, then unknown; an item can be of several kinds
KINDS = (
    QUESTION_ANSWER_SAME_IMAGE,
    QUESTION_SAME_IMAGE,
    PARAPHRASE_SAME_IMAGE,
    QUESTION_ANSWER_OTHER_IMAGE,
    QUESTION_OTHER_IMAGE,
    PARAPHRASE_OTHER_IMAGE,
    QUESTION_ANSWER_UNCOMPARED,
)
_IDENTICAL = (SAME_ITEM, SAME_QUESTION, SAME_CAPTION)
_REWORDED = (EDITED, PARAPHRASE)


def text_kinds(text_matches: pl.DataFrame, image_matches: pl.DataFrame) -> pl.DataFrame:
    """(benchmark_id, corpus, kind), one row per item and kind it has. Common questions are included.

    Identical questions on the same image come from the image matches, where every copy of a picture
    was compared; all others from the text matches. A corpus item that was not found to show the
    item's picture counts as another image, unless one of the two could not be compared.
    """
    copies = image_matches.filter(pl.col("relation").is_in(COPIES))
    asked = pl.col("modality").is_in([Modality.FULL, Modality.IMAGE_AND_QUESTION])
    same_image = copies.filter(asked).select(
        "benchmark_id",
        "corpus",
        pl.when(pl.col("modality") == Modality.FULL)
        .then(pl.lit(QUESTION_ANSWER_SAME_IMAGE))
        .otherwise(pl.lit(QUESTION_SAME_IMAGE))
        .alias("kind"),
    )
    pictured = (
        copies.select("benchmark_id", "corpus", "corpus_id")
        .unique()
        .with_columns(pl.lit(True).alias("pictured"))
    )
    pairs = text_matches.join(
        pictured, on=["benchmark_id", "corpus", "corpus_id"], how="left"
    ).with_columns(pl.col("pictured").fill_null(False))
    identical, reworded = (
        pl.col("relation").is_in(_IDENTICAL),
        pl.col("relation").is_in(_REWORDED),
    )
    here, same = pl.col("pictured"), pl.col("answer_relation") == "same"
    # Words that stand alone are beside no picture at all, so not beside another one.
    alone = (pl.col("evidence").str.json_path_match("$.pictured") == "false").fill_null(False)
    unknown = beside(UNCOMPARED)
    kind = (
        pl.when(reworded & here)
        .then(pl.lit(PARAPHRASE_SAME_IMAGE))
        .when(identical & ~here & same & unknown)
        .then(pl.lit(QUESTION_ANSWER_UNCOMPARED))
        .when(alone | unknown)
        .then(pl.lit(None, pl.String))
        .when(identical & ~here & same)
        .then(pl.lit(QUESTION_ANSWER_OTHER_IMAGE))
        .when(identical & ~here)
        .then(pl.lit(QUESTION_OTHER_IMAGE))
        .when(reworded & ~here)
        .then(pl.lit(PARAPHRASE_OTHER_IMAGE))
    )
    others = pairs.select("benchmark_id", "corpus", kind.alias("kind"))
    frame = pl.concat([same_image, others]).filter(pl.col("kind").is_not_null())
    # The same answer is a special case of the same question, and counts as both.
    questions = {
        QUESTION_ANSWER_SAME_IMAGE: QUESTION_SAME_IMAGE,
        QUESTION_ANSWER_OTHER_IMAGE: QUESTION_OTHER_IMAGE,
    }
    wider = frame.filter(pl.col("kind").is_in(list(questions))).with_columns(
        pl.col("kind").replace(questions)
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    return (
        pl.concat([frame, wider])
        .unique(maintain_order=True)
        .sort("corpus", "benchmark_id", pl.col("kind").replace_strict(order, return_dtype=pl.Int8))
    )


def count_kinds(kinds: pl.DataFrame, corpus: str) -> dict[str, int]:
    """Items per kind, all kinds named."""
    here = kinds.filter(pl.col("corpus") == corpus)
    counted = dict(here.group_by("kind").len().iter_rows())
    return {kind: int(counted.get(kind, 0)) for kind in KINDS}
