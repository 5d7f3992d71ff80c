"""Which pairs are verified: each once, the nearest of the whole corpus, however it was sharded."""

from __future__ import annotations

import random
from typing import Any

from heldout.corpus import Shard
from heldout.overlap.images.salvage import PAIRS, by_shard, nearest_overall, verify_tasks


def row(picture: str, item: str, similarity: float, **more: Any) -> dict[str, Any]:
    known = {"digest": item, "shard": 0, "method": "encoder", "view": "as is"}
    return {"picture": picture, "corpus_id": item, "similarity": similarity, **known, **more}


def test_the_nearest_are_counted_by_picture_not_by_item() -> None:
    repeated = [row("p", f"a{n}", 0.9, digest="a", shard=n) for n in range(4)]
    rows = [*repeated, row("p", "b", 0.8), row("p", "c", 0.7), row("q", "c", 0.1)]
    kept = nearest_overall(rows, 2)
    assert {r["corpus_id"] for r in kept if r["picture"] == "p"} == {"a0", "a1", "a2", "a3", "b"}
    assert [r["corpus_id"] for r in kept if r["picture"] == "q"] == ["c"]


def test_the_order_of_shards_and_rows_decides_nothing() -> None:
    rows = [row(f"p{n % 3}", f"i{n}", round(0.5 + n % 5 / 10, 1)) for n in range(40)]
    expected = by_shard(nearest_overall(rows, 4))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert by_shard(nearest_overall(rows, 4)) == expected


def test_a_pair_found_twice_is_one_candidate_with_both_reasons() -> None:
    near, hashed = row("p", "a", 0.9), row("p", "a", 0.97, method="pdq", digest="bytes")
    (candidate,) = by_shard([near], [hashed])[0]
    assert [one.method for one in candidate.found] == ["encoder", "pdq"]
    assert candidate.digest == "a"


def test_tasks_hold_every_pair_once_and_never_tear_a_picture() -> None:
    rows = [
        row(f"p{n % 2 + n // 6 % 25}", f"i{n}", 0.5, digest=f"d{n // 6}", shard=n // 600)
        for n in range(1200)
    ]
    pairs = by_shard(rows)
    shards = {number: Shard(number, str(number), str(number)) for number in pairs}
    tasks = list(verify_tasks(shards, pairs))
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert sorted(c.corpus_id for t in tasks for c in t.candidates) == sorted(
        r["corpus_id"] for r in rows
    )
    for task in tasks:
        judged = {(c.picture, c.digest) for c in task.candidates}
        assert len(judged) <= PAIRS + 1
        assert len(task.candidates) == 3 * len(judged)  # items that show one picture come for free
    homes: dict[str, set[int]] = {}
    for task in tasks:
        for candidate in task.candidates:
            homes.setdefault(candidate.digest, set()).add(task.index)
    assert all(len(home) == 1 for home in homes.values())
