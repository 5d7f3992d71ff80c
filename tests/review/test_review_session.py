"""``heldout.review``: a page in the background, with frames of what people said."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import heldout
from heldout.errors import InputError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def test_a_page_is_served_until_it_is_closed_and_its_judgements_are_a_frame(run: Path) -> None:
    with heldout.review(run, rater="ada", kind="matches") as review:
        assert httpx.get(review.url, follow_redirects=True).status_code == 200
        assert review.judgements.is_empty() and review.agreement == {}
        assert review.url in repr(review) and review.url in review._repr_html_()
        (desk,) = review.desks
        desk.judge(0, "unrelated", note="another patient")
        (row,) = review.judgements.iter_rows(named=True)
        assert (row["kind"], row["rater"], row["verdict"]) == ("matches", "ada", "unrelated")
        assert (row["subject"], row["note"]) == (desk.cards[0].subject, "another patient")
        assert row["cluster"] == desk.cards[0].cluster
        assert [frame["rater"].to_list() for frame in review.agreement.values()] == [["ada"]]
    with pytest.raises(httpx.ConnectError):
        httpx.get(review.url)
    assert len(review.judgements) == 1  # they stay


def test_ratings_of_items_are_columns(run: Path, tmp_path: Path) -> None:
    with heldout.review(run, kind="items", rater="ada", out=tmp_path) as review:
        review.desks[0].judge(0, "accept", ratings={"clarity": 3})
        (row,) = review.judgements.iter_rows(named=True)
    assert row["clarity"] == 3 and row["correctness"] is None


def test_a_setting_that_does_not_exist_is_named(run: Path) -> None:
    with pytest.raises(InputError, match="^blinded: "):
        heldout.review(run, blinded=True)
