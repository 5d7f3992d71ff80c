"""Releases: what is trained on is never released, whatever the seed, and rows say what twins need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.lab.models.releases import REWORDED, write_release
from heldout.lab.models.worlds import RELEASED, TRAINING, TWINS, WORLDS


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_no_released_picture_is_ever_trained_on(name: str) -> None:
    """The ten releases of the demo against the pool, which is drawn from seed 0 in another stream."""
    world = WORLDS[name]
    assert len({TRAINING, RELEASED, TWINS}) == 3
    pool = {world.draw(world.rng(0, TRAINING, index)) for index in range(3000)}
    released = [
        world.draw(world.rng(seed, RELEASED, index)) for seed in range(10) for index in range(96)
    ]
    assert len(set(released)) == len(released)
    assert pool.isdisjoint(released)


def test_a_release_is_grouped_by_picture_and_its_twins_answer_otherwise(tmp_path: Path) -> None:
    release = write_release(tmp_path / "one", "scenes", images=6, seed=3)
    rows = [json.loads(line) for line in (release.folder / "test.jsonl").open()]
    pictures = [row["image"] for row in rows]
    assert pictures == sorted(pictures) and len(set(pictures)) == 6
    assert all(row[REWORDED] and row[REWORDED] != row["question"] for row in rows)
    golds = {row["id"]: row["answer"] for row in rows}
    twins = read_benchmark(str(release.twins / "test.jsonl"))
    assert len(twins) > 0.2 * len(rows)  # as hard as their originals, and balanced: of few, fewer
    assert all(one.answer != golds[one.id] for one in twins)
    again = write_release(tmp_path / "two", "scenes", images=6, seed=3)
    assert (again.folder / "test.jsonl").read_text() == (release.folder / "test.jsonl").read_text()
