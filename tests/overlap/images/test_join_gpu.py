"""The torch join, on its reference path: the hits of the NumPy join to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.images._join import Hits, merge
from heldout.overlap.images._join_index import JoinIndex
from heldout.remote import QuantisedRows

torch = pytest.importorskip("torch", reason="the CUDA backend needs torch (heldout[hf])")

from heldout.overlap.images._join_gpu import (  # noqa: E402
    GpuJoinIndex,
    TorchScorer,
    gpu_scan,
)

MODES: list[dict[str, Any]] = [{"k": 4}, {"threshold": 0.8}, {"k": 2, "threshold": 0.75}]


def embeddings(count: int, seed: int, width: int = 40) -> NDArray[np.float32]:
    scale = np.arange(1, width + 1) ** -0.5
    draw = np.random.default_rng(seed)
    rows = scale + draw.standard_normal((count, width)) * scale
    rows[-20:] = rows[:20]  # exact repeats: ties
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def same(one: Hits, other: Hits) -> bool:
    fields = ("query", "position", "similarity", "unusable")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("rows", [5, 128, 3000])
def test_the_hits_are_those_of_the_plain_join(mode: dict[str, Any], kind: Any, rows: int) -> None:
    queries, corpus = embeddings(70, 1), embeddings(3000, 2)[:rows].astype(kind)
    expected = JoinIndex(queries, **mode).scan(corpus, 50)
    assert same(GpuJoinIndex(JoinIndex(queries, **mode), "cpu").scan(corpus, 50), expected)


def test_many_groups_find_their_bar_in_chunks() -> None:
    queries, corpus = embeddings(25, 1), embeddings(128 * 64 * 8, 2).astype(np.float16)
    expected = JoinIndex(queries, k=2).scan(corpus)
    assert same(GpuJoinIndex(JoinIndex(queries, k=2), "cpu").scan(corpus), expected)


def test_rows_that_are_no_unit_vectors_match_nothing() -> None:
    corpus = np.abs(embeddings(400, 2))
    corpus[3], corpus[150], corpus[399] = 0, np.nan, corpus[399] * 3
    queries = -np.abs(embeddings(30, 1))  # every similarity is below that of a blank row
    expected = JoinIndex(queries, k=5).scan(corpus, 7)
    assert expected.unusable.tolist() == [10, 157, 406]
    assert expected.similarity.max() < 0
    assert same(GpuJoinIndex(JoinIndex(queries, k=5), "cpu").scan(corpus, 7), expected)


def test_blocks_with_floors_merge_to_the_whole() -> None:
    queries, corpus = embeddings(40, 1), embeddings(1000, 2).astype(np.float16)
    index = GpuJoinIndex(JoinIndex(queries, k=3), "cpu")
    found = Hits.empty()
    for start, stop in ((600, 1000), (0, 300), (300, 600)):
        part = index.scan(corpus[start:stop], start, index.floor_of(found))
        found = merge(found, part, 3, None)
    assert same(found, JoinIndex(queries, k=3).scan(corpus))


def test_bfloat16_tensors_are_scanned_where_they_lie() -> None:
    queries = embeddings(40, 1)
    corpus = torch.from_numpy(embeddings(1000, 2)).to(torch.bfloat16)
    expected = JoinIndex(queries, k=3).scan(corpus.float().numpy())
    assert same(GpuJoinIndex(JoinIndex(queries, k=3), "cpu").scan(corpus), expected)


@pytest.mark.parametrize("width", [40, 1536])  # squares of the second add up to more than 2**24
def test_rows_of_int8_have_the_hits_of_their_unit_vectors(width: int) -> None:
    queries = embeddings(40, 1, width)
    corpus = embeddings(700, 2, width)
    stored = np.rint(corpus / np.abs(corpus).max(1, keepdims=True) * 127).astype(np.int8)
    stored[5] = 0
    stored[9] = np.where(np.arange(width) % 2, 127, -127)
    expected = JoinIndex(queries, k=3).scan(np.asarray(QuantisedRows(stored)), 11)
    assert expected.unusable.tolist() == [16]
    assert same(GpuJoinIndex(JoinIndex(queries, k=3), "cpu").scan(stored, 11), expected)


def test_group_maxima_are_the_maxima_of_the_scores() -> None:
    queries, rows = torch.from_numpy(embeddings(9, 1)), torch.from_numpy(embeddings(256, 2))
    scorer = TorchScorer(64)
    scores = (queries @ rows.T).view(9, 4, 64)
    assert torch.allclose(scorer.maxima(queries, rows), scores.amax(dim=2).T)
    query, group = torch.tensor([8, 0]), torch.tensor([3, 1])
    assert torch.allclose(scorer.rescore(queries, rows, query, group), scores[query, group])


def test_a_missing_device_is_a_sentence_and_a_core_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    monkeypatch.setattr("heldout.overlap.images._join_gpu._reasons", [])
    join = JoinIndex(embeddings(25, 1), k=1)
    assert [gpu_scan(join, embeddings(30, 2)) for _ in range(2)] == [None, None]
    assert len(caplog.records) == 1
    with pytest.raises(InputError, match="no CUDA device"):
        GpuJoinIndex(JoinIndex(embeddings(25, 1), k=1))
