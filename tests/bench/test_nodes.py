"""Nodes of a real Ray cluster killed at random: the tables are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import nodes

pytest.importorskip("ray", reason="the Ray engine needs heldout[ray]")
pytest.importorskip("cv2", reason="registration needs heldout[vision]")


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_nodes_that_die_at_random_change_nothing(tmp_path: Path) -> None:
    record = nodes.rehearse(tmp_path, shards=20, kills=3)
    assert record["killed"] >= 2
    assert record["differ"] == [] and record["failed_shards"] == 0
