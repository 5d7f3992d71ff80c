"""The same words beside another picture are worth less than words that stand alone."""

from __future__ import annotations

import json

import polars as pl

from heldout.overlap.texts.relation import ANOTHER, BESIDE, UNCOMPARED, settle_pictures

ITEMS = pl.DataFrame(
    {
        "benchmark_id": ["a", "b"],
        "image_digests": [["1"], []],
    }
)


def settled(
    item: str, degree: str, *, pictured: bool, method: str = "exact", relation: str = ""
) -> str:
    text = pl.DataFrame(
        {
            "benchmark_id": [item],
            "corpus": ["c"],
            "corpus_id": ["x"],
            "method": [method],
            "degree": [degree],
            "evidence": [json.dumps({"pictured": pictured})],
        }
    )
    rows = [("a", "c", "x", relation)] if relation else []
    names = ["benchmark_id", "corpus", "corpus_id", "relation"]
    matches = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    found = settle_pictures(text, matches, ITEMS)
    assert found.columns == text.columns
    return str(found["degree"][0])


def test_words_beside_another_picture_lose_a_degree() -> None:
    assert settled("a", "hard", pictured=True) == "soft"
    assert settled("a", "soft", pictured=True) == "none"
    assert settled("a", "hard", pictured=True, relation="look-alike") == "soft"


def test_words_beside_the_items_own_picture_keep_theirs() -> None:
    for own in ("same image", "transformed copy", "undecided"):
        assert settled("a", "hard", pictured=True, relation=own) == "hard"


def test_words_that_stand_alone_keep_theirs() -> None:
    assert settled("a", "hard", pictured=False) == "hard"
    assert settled("b", "hard", pictured=True) == "hard"  # the item has no picture to differ from
    assert settled("a", "soft", pictured=True, method="provenance") == "soft"


def told(
    item: str, *, pictured: bool = True, lost: bool = False, degree: str = "hard"
) -> tuple[str, str]:
    """(degree, what the words stand beside) of one pair."""
    text = pl.DataFrame(
        {
            "benchmark_id": [item],
            "corpus": ["c"],
            "corpus_id": ["x"],
            "method": ["exact"],
            "degree": [degree],
            "evidence": [json.dumps({"pictured": pictured})],
        }
    )
    items = pl.DataFrame(
        {
            "benchmark_id": ["seen", "lost", "half", "bare"],
            "image_digests": [["1"], [""], ["1", ""], []],
        }
    )
    names = ["benchmark_id", "corpus", "corpus_id", "relation"]
    none = pl.DataFrame([], schema=dict.fromkeys(names, pl.String))
    unread = pl.DataFrame(
        {"corpus": ["c" if lost else "other"], "corpus_id": ["x"]},
        schema={"corpus": pl.String, "corpus_id": pl.String},
    )
    found = settle_pictures(text, none, items, unread)
    again = settle_pictures(found.with_columns(pl.lit(degree).alias("degree")), none, items)
    assert again.equals(found)  # what was known at the search is known when people have judged
    return str(found["degree"][0]), str(json.loads(found["evidence"][0]).get(BESIDE, ""))


def test_words_beside_pictures_that_could_not_be_compared_are_for_people() -> None:
    assert told("seen") == ("soft", ANOTHER)
    for item, lost in (("lost", False), ("lost", True), ("half", False), ("seen", True)):
        assert told(item, lost=lost) == ("soft", UNCOMPARED)
        assert told(item, lost=lost, degree="soft") == ("soft", UNCOMPARED)


def test_nothing_is_beside_anything_where_one_side_never_had_a_picture() -> None:
    assert told("lost", pictured=False) == ("hard", "")
    assert told("bare", lost=True) == ("hard", "")
