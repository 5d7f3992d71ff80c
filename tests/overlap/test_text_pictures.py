"""The same words beside another picture are worth less than words that stand alone."""

from __future__ import annotations

import json

import polars as pl

from heldout.overlap.text.pictures import settle_pictures

ITEMS = pl.DataFrame({
    "benchmark_id": ["a", "b"],
    "image_digests": [["1"], []],
})  # fmt: skip


def settled(
    item: str, degree: str, *, pictured: bool, method: str = "exact", relation: str = ""
) -> str:
    text = pl.DataFrame({
        "benchmark_id": [item], "corpus": ["c"], "corpus_id": ["x"], "method": [method],
        "degree": [degree], "evidence": [json.dumps({"pictured": pictured})],
    })  # fmt: skip
    rows = [("a", "c", "x", relation)] if relation else []
    names = ["benchmark_id", "corpus", "corpus_id", "relation"]
    matches = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    found = settle_pictures(text, matches, ITEMS)
    assert found.columns == text.columns
    return str(found["degree"][0])


def test_words_beside_another_picture_lose_a_degree() -> None:
    assert settled("a", "hard", pictured=True) == "soft"
    assert settled("a", "soft", pictured=True) == "none"
    assert settled("a", "hard", pictured=True, relation="same view, other subject") == "soft"


def test_words_beside_the_items_own_picture_keep_theirs() -> None:
    for own in ("same image", "transformed copy", "undecided"):
        assert settled("a", "hard", pictured=True, relation=own) == "hard"


def test_words_that_stand_alone_keep_theirs() -> None:
    assert settled("a", "hard", pictured=False) == "hard"
    assert settled("b", "hard", pictured=True) == "hard"  # the item has no picture to differ from
    assert settled("a", "soft", pictured=True, method="provenance") == "soft"
