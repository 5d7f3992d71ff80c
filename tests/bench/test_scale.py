"""The rehearsal at a small size: every planted row and text is found, and a killed search goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import scale

pytest.importorskip("torch", reason="its encoder is a TorchScript file")


def test_rows_have_the_mean_of_real_embeddings_and_depend_on_their_number_alone() -> None:
    rows = scale.mixed(5000, 0, 3)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert np.array_equal(rows, scale.mixed(5000, 0, 3))
    assert not np.array_equal(rows, scale.mixed(5000, 0, 4))
    length = float(np.linalg.norm(rows.mean(axis=0)))
    assert 0.5 < length < 0.65  # 0.578 of the real ones


def test_every_planted_row_is_found(tmp_path: Path) -> None:
    record = scale.search_rows(20_000, tmp_path, seed=1, workers=1, per_shard=3_000)
    assert record["found"] == record["planted"] == 24
    assert record["largest_error"] < 1e-3 and record["nearest_stranger"] < 0.97
    assert record["shards"] == 7 and record["claims"]


def test_every_planted_text_is_found(tmp_path: Path) -> None:
    record = scale.search_texts(4_000, tmp_path, seed=1, workers=1, per_shard=1_000)
    assert record["found"] == record["planted"] == 48
    assert record["others"] == 0 and record["shards"] == 4
