"""The exact join: the pairs of brute force, the same bits however the corpus is cut."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.overlap.images._join import Hits, exact_similarity, merge, select, unit_queries
from heldout.overlap.images._join_index import PLAIN, JoinIndex, Levels, Projection
from join_stream import join

MODES: list[dict[str, Any]] = [
    {"threshold": 0.8},
    {"k": 3},
    {"k": 2, "threshold": 0.75},
]


def embeddings(count: int, seed: int, width: int = 64) -> NDArray[np.float16]:
    """Rows with a common mean, clusters and a decaying spectrum; a few are exact repeats."""
    scale = np.arange(1, width + 1) ** -0.5
    centres = np.random.default_rng(0).standard_normal((12, width)) * scale
    draw = np.random.default_rng(seed)
    rows = 1.5 * scale + centres[draw.integers(0, 12, count)]
    rows = rows + 0.7 * draw.standard_normal((count, width)) * scale
    rows[count // 2 : count // 2 + 20] = rows[:20]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def brute_force(
    queries: NDArray[Any],
    corpus: NDArray[Any],
    k: int | None = None,
    threshold: float | None = None,
) -> Hits:
    """Every pair in float64, without any product of matrices."""
    ours = unit_queries(queries)
    query, row = np.divmod(np.arange(len(ours) * len(corpus)), len(corpus))
    similarity = exact_similarity(ours, corpus, query, row)
    return select([Hits(query.astype(np.int32), row, similarity)], k, threshold)


def same(one: Hits, other: Hits) -> bool:
    fields = ("query", "position", "similarity", "unusable")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


@pytest.mark.parametrize("mode", MODES)
def test_the_pairs_are_those_of_brute_force(mode: dict[str, Any]) -> None:
    queries, corpus = embeddings(90, 1), embeddings(2500, 2)
    expected = brute_force(queries, corpus, **mode)
    assert len(expected) >= 90
    assert same(JoinIndex(queries, **mode).scan(corpus), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [1, 14, 40])
def test_pruning_changes_nothing(mode: dict[str, Any], axes: int) -> None:
    queries, corpus = embeddings(90, 1), embeddings(2500, 2)
    found = JoinIndex(queries, axes=axes, **mode).scan(corpus)
    assert same(found, brute_force(queries, corpus, **mode))


def test_pruning_is_chosen_where_it_pays_and_not_where_it_cannot() -> None:
    queries, rows = unit_queries(embeddings(800, 1, 192)), embeddings(900, 2, 192)
    bars = np.full(len(queries), 0.95)
    structured = Projection.fit(queries, rows.astype(np.float32))
    assert 0 < structured.choose(rows.astype(np.float32), bars).axes < 96
    noise = unit_queries(np.random.default_rng(3).standard_normal((1700, 192)))
    isotropic = Projection.fit(noise[:800], noise[800:])
    assert isotropic.choose(noise[800:], np.full(800, 0.1)) == PLAIN


def test_a_large_block_is_planned_and_a_small_one_is_not() -> None:
    queries, corpus = embeddings(700, 1), embeddings(50_000, 2)
    index = JoinIndex(queries, threshold=0.97)
    index.scan(corpus[:100])
    assert index.levels == PLAIN
    found = index.scan(corpus)
    assert index.levels.axes > 0
    assert same(found, JoinIndex(queries, threshold=0.97, axes=0).scan(corpus))


@pytest.mark.parametrize("levels", [Levels(14, 14), Levels(30, 30), Levels(14, 30)])
@pytest.mark.parametrize("most", [16, 254])
def test_the_bound_is_never_below_the_similarity(levels: Levels, most: int) -> None:
    queries = unit_queries(embeddings(200, 5))
    rows = embeddings(1000, 6).astype(np.float32)
    rows[:200] = queries  # the tightest case: the bound of a vector with itself
    projection = Projection.fit(queries, rows, most)
    levels = Levels(*(min(count, len(projection.basis)) for count in levels))
    squares = np.einsum("ij,ij->i", rows, rows)
    ours, again = projection.sides_of_queries(levels, np.zeros(len(queries)))
    theirs, more = projection.sides_of_rows(levels, rows, squares)
    exact = queries.astype(np.float64) @ rows.T.astype(np.float64)
    bound = ours.astype(np.float64) @ theirs.T.astype(np.float64)
    assert (bound >= exact).all()
    assert (bound - exact).min() < 0.01  # and it says something
    if levels.more > levels.axes:
        refined = bound + again.astype(np.float64) @ more.T.astype(np.float64)
        assert (refined >= exact - projection.margin(levels.more)).all()
        assert (refined < bound).mean() > 0.99


def test_pairs_at_the_threshold_are_kept_and_just_below_are_not() -> None:
    queries, corpus = embeddings(60, 1), embeddings(1000, 2)
    similarity = np.sort(brute_force(queries, corpus, threshold=0.0).similarity)
    for threshold in similarity[-400:-300:20]:
        for axes in (0, 14):
            kept = JoinIndex(queries, threshold=float(threshold), axes=axes).scan(corpus)
            assert kept.similarity.min() == threshold
            above = JoinIndex(queries, threshold=float(np.nextafter(threshold, 2)), axes=axes)
            assert (above.scan(corpus).similarity > threshold).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 37, 800, 5000])
def test_blocks_of_any_size_in_any_order_give_the_same_bits(
    mode: dict[str, Any], size: int
) -> None:
    queries, corpus = embeddings(40, 1), embeddings(1200, 2)
    if size == 1:
        corpus = corpus[:150]
    index = JoinIndex(queries, **mode)
    whole = index.scan(corpus)
    starts = np.random.default_rng(size).permutation(np.arange(0, len(corpus), size))
    found = Hits.empty()
    for start in starts:
        block = corpus[start : start + size]
        found = merge(found, index.scan(block, int(start)), index.k, index.threshold)
        known = merge(
            found,
            index.scan(block, int(start), index.floor_of(found)),
            index.k,
            index.threshold,
        )
        assert len(known) >= len(found)
    assert same(found, whole)


def test_ties_go_to_the_earlier_position() -> None:
    corpus = np.repeat(embeddings(40, 9)[:1], 30, axis=0)
    index = JoinIndex(corpus[:1], k=4)
    assert index.scan(corpus, 100).position.tolist() == [100, 101, 102, 103]
    late_first = merge(index.scan(corpus[10:], 10), index.scan(corpus[:10], 0), 4, None)
    assert late_first.position.tolist() == [0, 1, 2, 3]


def test_rows_that_are_no_unit_vectors_are_named_and_match_nothing() -> None:
    corpus = embeddings(300, 2)
    corpus[3], corpus[150], corpus[299] = 0, np.nan, corpus[299] * 3
    found = JoinIndex(corpus[:3], k=300, threshold=-1.0, axes=14).scan(corpus, 1000)
    assert found.unusable.tolist() == [1003, 1150, 1299]
    assert not set(found.unusable) & set(found.position)
    assert len(found) == 3 * 297


def test_fewer_rows_than_k_are_all_kept() -> None:
    corpus = embeddings(45, 2)[:4]
    assert len(JoinIndex(corpus, k=10).scan(corpus)) == 16
    assert len(JoinIndex(corpus, k=10).scan(corpus[:0])) == 0


def test_workers_and_memory_change_nothing(tmp_path: Path) -> None:
    queries, corpus = embeddings(50, 1), embeddings(20_000, 2)
    paths = [tmp_path / f"{number}.npy" for number in range(2)]
    for path, part in zip(paths, np.array_split(corpus, [7000]), strict=True):
        np.save(path, part)
    index = pickle.loads(pickle.dumps(JoinIndex(queries, k=3, threshold=0.9)))
    whole = index.scan(corpus)
    rows: list[int] = []
    assert same(join(index, paths, step=rows.append), whole)
    assert sum(rows) == len(corpus)
    assert same(join(index, paths, memory=2**20), whole)
    with open_engine("local", workers=2) as engine:
        assert same(join(index, paths, engine=engine, memory=2**20), whole)


@pytest.mark.parametrize("mode", MODES)
def test_a_sorted_corpus_in_many_files_gives_the_same_bits(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    queries, corpus = embeddings(60, 1), embeddings(9000, 2)
    corpus = corpus[np.argsort(corpus[:, 0].astype(np.float32))]
    corpus[77], corpus[8000] = 0, np.nan
    paths = [tmp_path / f"{number:02d}.npy" for number in range(70)]
    for path, part in zip(paths, np.array_split(corpus, 70), strict=True):
        np.save(path, np.asfortranarray(part) if path.name == "05.npy" else part)
    np.save(tmp_path / "empty.npy", corpus[:0])
    found = join(JoinIndex(queries, axes=14, **mode), [*paths, tmp_path / "empty.npy"])
    assert found.unusable.tolist() == [77, 8000]
    usable = np.delete(np.arange(9000), [77, 8000])
    expected = brute_force(queries, corpus[usable], **mode)
    assert np.array_equal(found.position, usable[expected.position])
    assert np.array_equal(found.similarity, expected.similarity)


def test_a_sample_gives_a_floor_that_is_not_above_the_nearest() -> None:
    queries, corpus = embeddings(50, 1), embeddings(3000, 2)
    index = JoinIndex(queries, k=3, axes=14)
    floor = index.prepare(corpus[::3], 3000)
    third = brute_force(queries, corpus, k=3).similarity.reshape(50, 3)[:, 2]
    assert floor is not None
    assert (floor <= third).all()
    assert (floor > third - 0.5).all()
    assert JoinIndex(queries, threshold=0.9, axes=14).prepare(corpus[::3], 3000) is None


def test_double_precision_rows_are_read_as_single() -> None:
    queries, corpus = embeddings(50, 1), embeddings(500, 2).astype(np.float32)
    wide = corpus.astype(np.float64) * (1 + 1e-12)
    index = JoinIndex(queries, k=3)
    assert same(index.scan(wide), index.scan(wide.astype(np.float32)))


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.npy"
    np.save(path, embeddings(3000, 2))
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(InputError, match="cut.npy"):
        join(JoinIndex(embeddings(45, 1), k=1), [path])


def test_wrong_inputs_are_refused_with_a_sentence(tmp_path: Path) -> None:
    queries = embeddings(45, 1)
    with pytest.raises(InputError, match="k, a threshold"):
        JoinIndex(queries)
    with pytest.raises(InputError, match="64 dimensions"):
        JoinIndex(queries, k=1).scan(np.zeros((3, 32), np.float16))
    queries[4] = 0
    with pytest.raises(InputError, match="first row 4"):
        JoinIndex(queries, k=1)
    broken = tmp_path / "broken.npy"
    broken.write_bytes(b"not a matrix")
    with pytest.raises(InputError, match="broken.npy"):
        join(JoinIndex(queries[:2], k=1), [broken])
    with pytest.raises(InputError, match="at least"):
        join(JoinIndex(queries[:2], k=1), [broken], memory=10)
