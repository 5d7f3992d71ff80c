"""LAION's layout: matrices and their descriptions, row by row, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.corpus import EmbeddingCorpus, open_corpus
from heldout.errors import InputError


@pytest.fixture
def laion(tmp_path: Path) -> Path:
    (tmp_path / "img_emb").mkdir()
    (tmp_path / "metadata").mkdir()
    for number in (2, 10):
        matrix = np.arange(number * 8, dtype=np.float16).reshape(number, 8)
        np.save(tmp_path / "img_emb" / f"img_emb_{number}.npy", matrix)
        rows = {
            "image_path": [f"{number}-{k}" for k in range(number)],
            "caption": [f"caption {k}" for k in range(number)],
            "url": [f"http://{k}" for k in range(number)],
        }
        pq.write_table(pa.table(rows), tmp_path / "metadata" / f"metadata_{number}.parquet")
    return tmp_path


def test_shards_come_by_number_and_item_n_belongs_to_row_n(laion):
    corpus = open_corpus(laion)
    assert isinstance(corpus, EmbeddingCorpus)
    shards = list(corpus.shards())
    assert [shard.id for shard in shards] == ["img_emb_2.npy", "img_emb_10.npy"]
    matrix = corpus.embeddings(shards[1])
    assert isinstance(matrix, np.memmap)
    assert (matrix.dtype, matrix.shape) == (np.float16, (10, 8))
    found = list(corpus.read(shards[1]))
    assert len(found) == len(matrix)
    assert (found[7].id, found[7].text) == ("img_emb_10.npy/7", "caption 7")
    assert found[7].metadata["url"] == "http://7"
    assert found[7].image is None


def test_rows_of_int8_are_read_as_unit_vectors(laion):
    stored = np.random.default_rng(0).integers(-127, 128, (2, 8), dtype=np.int8)
    stored[1] = 0
    np.save(laion / "img_emb" / "img_emb_2.npy", stored)
    corpus = open_corpus(laion)
    rows = corpus.embeddings(next(iter(corpus.shards())))
    assert (rows.dtype, rows.shape, len(rows)) == (np.float32, (2, 8), 2)
    assert np.allclose(rows[0] * np.linalg.norm(stored[0]), stored[0])
    assert np.isclose(np.linalg.norm(rows[:1]), 1, atol=1e-6)
    assert not rows[1].any()  # a row of nothing is left to whoever reports unusable ones
    assert np.array_equal(rows[[0, 1]], np.asarray(rows)) and rows[:, 2:4].shape == (2, 2)


def test_matrix_and_metadata_that_disagree_are_refused_as_a_whole(laion):
    np.save(laion / "img_emb" / "img_emb_2.npy", np.zeros((3, 8), np.float16))
    corpus = open_corpus(laion)
    shard = next(iter(corpus.shards()))
    (lost,) = corpus.read(shard)
    assert lost.reason == "unusable embeddings"
    assert "3 rows" in lost.detail
    with pytest.raises(InputError, match="belong together"):
        corpus.embeddings(shard)


def test_pickles_and_damage_are_refused_without_running_anything(laion):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (laion / "ran",))

    path = laion / "img_emb" / "img_emb_2.npy"
    good = path.read_bytes()
    np.save(path, np.array([Evil(), Evil()], dtype=object), allow_pickle=True)
    damaged = [path.read_bytes(), b"", good[:20], good[:-1], b"PK\3\4" + good, b"not npy" * 9]
    for data in damaged:
        path.write_bytes(data)
        corpus = open_corpus(laion)
        (lost,) = corpus.read(next(iter(corpus.shards())))
        assert lost.reason == "unusable embeddings"
    assert not (laion / "ran").exists()


def test_without_metadata_every_row_is_still_an_item(laion):
    (laion / "metadata" / "metadata_2.parquet").unlink()
    corpus = open_corpus(laion)
    first = next(iter(corpus.shards()))
    assert [item.id for item in corpus.read(first)] == ["img_emb_2.npy/0", "img_emb_2.npy/1"]


def test_a_key_changes_with_the_matrix_and_with_its_metadata(laion):
    def key():
        return next(iter(open_corpus(laion).shards())).key

    before = key()
    rows = {"caption": ["new", "words"]}
    pq.write_table(pa.table(rows), laion / "metadata" / "metadata_2.parquet")
    after = key()
    assert before != after
    np.save(laion / "img_emb" / "img_emb_2.npy", np.ones((2, 16), np.float32))
    assert key() != after
