"""Candidates of a join: bars rise with what was found and never above what is kept."""

from __future__ import annotations

import functools
import importlib
import sys

import numpy as np
import pytest

from heldout.overlap.images import near
from heldout.overlap.images._join import (
    BELOW_EVERYTHING,
    Candidates,
    exact_similarity,
    unit_queries,
)
from heldout.overlap.images._join_index import JoinIndex
from heldout.overlap.images.embed import RowOrigins, SavedShard
from heldout.overlap.images.embedding_rows import Queries
from heldout.overlap.images.encoder import WHOLE, Aspect
from heldout.overlap.images.near import NeighbourIndex, NeighbourTask, neighbours_in


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_bars_rise_and_lose_no_hit(threshold: float | None) -> None:
    draw = np.random.default_rng(4)
    queries = unit_queries(draw.standard_normal((40, 24)))
    block = unit_queries(draw.standard_normal((3000, 24)))
    margin = 0.02  # the quick similarities below are worse than any real ones
    bars = np.full(40, BELOW_EVERYTHING)
    candidates = Candidates(bars, k=6, threshold=threshold, margin=margin)
    exact = queries.astype(np.float64) @ block.T.astype(np.float64)
    last = candidates.bars
    for first in range(0, 3000, 100):
        quick = exact[:, first : first + 100] + draw.uniform(-margin, margin, (40, 100))
        query, row = np.nonzero(quick >= candidates.lowered[:, None])
        candidates.add(query, row + first, quick[query, row].astype(np.float32))
        assert (candidates.bars >= last).all()
        last = candidates.bars
    assert last.min() > 0.2  # they did rise
    sixth = np.sort(exact, axis=1)[:, -6]
    assert (last <= sixth).all()
    found = candidates.settle(queries, block, 500)
    for query in range(40):
        order = np.argsort(-exact[query], kind="stable")
        wanted = order[: max(6, int((exact[query] >= (threshold or 2)).sum()))]
        assert (found.position[found.query == query] - 500).tolist() == wanted.tolist()


def test_a_threshold_alone_keeps_what_reaches_it() -> None:
    queries = unit_queries(np.eye(2, 8))
    block = unit_queries(np.vstack([np.eye(8)[0], [0.6, 0.8, 0, 0, 0, 0, 0, 0]]))
    candidates = Candidates(np.full(2, 0.6), k=None, threshold=0.6, margin=1e-6)
    query, row = (part.ravel() for part in np.indices((2, 2)))
    quick = exact_similarity(queries, block, query, row).astype(np.float32)
    candidates.add(query, row, quick)
    found = candidates.settle(queries, block, 0)
    pairs = set(zip(found.query.tolist(), found.position.tolist(), strict=True))
    assert pairs == {(0, 0), (0, 1), (1, 1)}


def test_torch_is_loaded_when_cores_have_worked_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    blocks = near._LargeBlocks()
    assert not blocks.add(near._WORTH_LOADING // 2)
    assert blocks.add(near._WORTH_LOADING // 2)


@pytest.mark.parametrize("where", ["cores", "torch"])
def test_neighbours_are_those_of_all_views_and_parts_compared_exactly(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "torch":  # what a GPU does, without one
        pytest.importorskip("torch", reason="the join on a GPU needs torch (heldout[hf])")
        gpu = importlib.import_module("heldout.overlap.images._join_gpu")
        monkeypatch.setattr(gpu, "gpu_scan", functools.partial(gpu.gpu_scan, device="cpu"))
        monkeypatch.setattr(near, "has_gpu", lambda: True)
        monkeypatch.setattr(near, "_WORTH_A_GPU", 0)
        monkeypatch.delattr(JoinIndex, "scan")
    draw = np.random.default_rng(8)
    views, items, nearest = 7, 60, 3
    queries = unit_queries(draw.standard_normal((12 * views, 16)))
    pictures = np.repeat([f"p{number:02d}" for number in range(12)], views)
    # Rows near some view, so that several views of one picture compete for one item; two are equal.
    rows = queries[draw.integers(0, len(queries), 150)] + 0.3 * draw.standard_normal((150, 16))
    rows = unit_queries(rows)
    rows[70] = rows[10]
    owners = np.r_[np.arange(items), draw.integers(0, items, 90)]
    parts = np.r_[np.zeros(items, int), np.ones(90, int)]
    digests = [f"d{number}" for number in range(items)]
    digests[4], digests[5] = "p02", digests[6]  # an exact copy of p02, and one picture shown twice
    about = RowOrigins([f"i{number:02d}" for number in range(items)], digests, owners, parts)
    names = tuple(f"v{number % views}" for number in range(len(queries)))
    index = NeighbourIndex(Queries("e", queries, tuple(pictures), names), nearest)
    found = neighbours_in(index, NeighbourTask(0, SavedShard("", None), (rows, about)))
    told = [
        (row["picture"], row["corpus_id"], row["similarity"], row["view"])
        for row in found.tables["candidates"].to_pylist()
    ]
    every = np.indices((len(queries), len(rows))).reshape(2, -1)
    exact = exact_similarity(queries, rows, *every).reshape(len(queries), -1)
    expected = []
    for picture in dict.fromkeys(pictures.tolist()):
        mine = np.flatnonzero(pictures == picture)
        best = {
            item: exact[np.ix_(mine, np.flatnonzero(owners == item))].max(axis=1)
            for item in range(items)
            if item != 6  # led by item 5
        }
        ranked = sorted(best, key=lambda item: (-best[item].max(), item))
        for item in [item for item in ranked if digests[item] != picture][:nearest]:
            view = names[mine[int(best[item].argmax())]]
            shown = (5, 6) if item == 5 else (item,)
            expected += [(picture, f"i{one:02d}", best[item].max(), view) for one in shown]
    assert told == expected


def test_an_aspect_finds_what_the_whole_row_hides() -> None:
    draw = np.random.default_rng(3)
    layout, words = (unit_queries(draw.standard_normal((20, 12))) for _ in range(2))
    layout[:] = layout[0] + 0.05 * draw.standard_normal(layout.shape)  # all are laid out alike
    rows = unit_queries(np.hstack([unit_queries(layout), words]))
    query = np.hstack([unit_queries(layout)[:1], words[7:8]])
    query[0, :12] = -query[0, :12]  # its copy, item 7, is laid out otherwise
    about = RowOrigins(
        [f"i{number}" for number in range(20)],
        [f"d{number}" for number in range(20)],
        np.arange(20),
        np.zeros(20, int),
    )
    queries = Queries("e", unit_queries(query), ("p",), ("as is",))
    aspects = (WHOLE, Aspect("words", slice(12, None), least=0.9), Aspect("layout", slice(0, 12)))
    index = NeighbourIndex(queries, 1, aspects)
    task = NeighbourTask(0, SavedShard("", None), (rows, about))
    table = neighbours_in(index, task).tables["candidates"].to_pylist()
    by_words = [row for row in table if row["aspect"] == "words"]
    assert [row["corpus_id"] for row in by_words] == ["i7"]
    assert by_words[0]["score"] == pytest.approx(1.0)
    # Graded by the whole row, whichever aspect proposed it.
    assert by_words[0]["similarity"] == pytest.approx(float(queries.rows[0] @ rows[7]), abs=1e-5)
    assert {row["corpus_id"] for row in table if row["aspect"] == "whole"} == {"i7"}
