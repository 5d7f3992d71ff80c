"""Which pairs are verified: each once, the nearest of the whole corpus, however it was sharded."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest

from heldout.corpus import Shard
from heldout.overlap.images._pairs import (
    HUB,
    PAIRS,
    PairsByShard,
    WithoutTemplates,
    by_shard,
    crowded,
    in_series,
    nearest_overall,
    nearest_so_far,
    verify_tasks,
)


def row(picture: str, item: str, similarity: float, **more: Any) -> dict[str, Any]:
    known = {"digest": item, "shard": 0, "method": "encoder", "view": "as is"}
    return {"picture": picture, "corpus_id": item, "similarity": similarity, **known, **more}


def test_the_nearest_are_counted_by_picture_not_by_item() -> None:
    repeated = [row("p", f"a{n}", 0.9, digest="a", shard=n) for n in range(4)]
    rows = [*repeated, row("p", "b", 0.8), row("p", "c", 0.7), row("q", "c", 0.1)]
    kept = nearest_overall(rows, 2)
    assert {r["corpus_id"] for r in kept if r["picture"] == "p"} == {"a0", "a1", "a2", "a3", "b"}
    assert [r["corpus_id"] for r in kept if r["picture"] == "q"] == ["c"]


def test_the_order_of_shards_and_rows_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heldout.overlap.images._pairs._HELD", 7)
    rows = [
        row(f"p{n % 3}", f"i{n}", round(0.5 + n % 5 / 10, 1), sure=n % 9 == 0) for n in range(40)
    ]
    rows += [row("p1", f"again{n}", 0.9, digest="i4") for n in range(3)]
    expected = by_shard(nearest_overall(rows, 4))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert by_shard(nearest_overall(rows, 4)) == expected
        few = nearest_so_far(rows, 4)
        assert len(few) < len(rows)
        assert by_shard(nearest_overall(few, 4)) == expected
        assert (crowded(few), in_series(few)) == (crowded(rows), in_series(rows))


def test_a_pair_found_twice_is_one_candidate_with_both_reasons() -> None:
    near, hashed = row("p", "a", 0.9), row("p", "a", 0.97, method="pdq", digest="bytes")
    (candidate,) = by_shard([near], [hashed])[0]
    assert [one.method for one in candidate.origins] == ["encoder", "pdq"]
    assert candidate.digest == "a"


def test_tasks_hold_every_pair_once_and_never_tear_a_picture() -> None:
    rows = [
        row(f"p{n % 2 + n // 6 % 25}", f"i{n}", 0.5, digest=f"d{n // 6}", shard=n // 600)
        for n in range(1200)
    ]
    pairs = by_shard(rows)
    shards = {number: Shard(number, str(number), str(number)) for number in pairs}
    tasks = list(verify_tasks(shards, sorted(pairs.items())))
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert sorted(c.corpus_id for t in tasks for c in t.candidates) == sorted(
        r["corpus_id"] for r in rows
    )
    for task in tasks:
        judged = {(c.picture, c.digest) for c in task.candidates}
        assert len(judged) <= PAIRS + 1
        assert len(task.candidates) == 3 * len(judged)  # items that show one picture come for free
    sizes = [len({(c.picture, c.digest) for c in task.candidates}) for task in tasks[:4]]
    assert sizes == [4, 8, 16, 32]  # the first are small: progress soon moves
    homes: dict[str, set[int]] = {}
    for task in tasks:
        for candidate in task.candidates:
            homes.setdefault(candidate.digest, set()).add(task.index)
    assert all(len(home) == 1 for home in homes.values())


def test_each_aspect_of_an_encoder_proposes_its_own_nearest() -> None:
    rows = [
        row("p", "alike", 0.9, aspect="layout", score=0.95),
        row("p", "other", 0.8, aspect="layout", score=0.9),
        row("p", "crop", 0.3, aspect="words", score=0.5),
        row("p", "alike", 0.9, aspect="words", score=0.1),
    ]
    kept = nearest_overall(rows, 1)
    assert sorted(r["corpus_id"] for r in kept) == ["alike", "crop"]


def test_of_an_aspect_only_what_stands_out_from_strangers_is_verified() -> None:
    scores = {"copy": 0.30, "perhaps": 0.21, "stranger": 0.205, "other": 0.2, "last": 0.2}
    rows = [row("p", name, 0.4, aspect="words", score=score) for name, score in scores.items()]
    rows += [row("p", f"layout {n}", 0.4, aspect="layout", score=0.9 - n / 100) for n in range(5)]
    kept = nearest_overall(rows, 5, {"words": (1.04, 2.0), "layout": (1.12, 2.0)})
    assert sorted(r["corpus_id"] for r in kept) == ["copy", "layout 0", "perhaps"]
    kept = nearest_overall(rows[:5], 5, {"words": (1.04, 0.203)})
    assert sorted(r["corpus_id"] for r in kept) == ["copy", "perhaps", "stranger"]
    assert len(nearest_overall(rows, 5)) == 10


def templates(count: int) -> list[dict[str, Any]]:
    return [
        row(f"p{ours}", f"c{theirs}", 0.95, method="phash")
        for ours in range(count)
        for theirs in range(count)
    ]


def chosen(*shards: list[dict[str, Any]]) -> WithoutTemplates:
    numbered = (
        [{**entry, "shard": number} for entry in rows] for number, rows in enumerate(shards)
    )
    return WithoutTemplates.of([(n, pl.DataFrame(rows)) for n, rows in enumerate(numbered)])


def held(rows: Iterable[tuple[int, list[dict[str, Any]]]] | None) -> list[tuple[str, str]]:
    return [(r["picture"], r["corpus_id"]) for _, some in rows or () for r in some]


def test_of_pictures_that_are_near_to_many_only_the_nearest_are_verified() -> None:
    few = chosen(templates(HUB))
    assert len(held(few.kept)) == HUB * HUB and not held(few.passed_over)
    assert "p0" not in few and "c0" not in few
    count = 3 * HUB
    copy = row("p5", "c7", 0.99, method="pdq")
    many = chosen([*templates(count), copy])
    assert len(held(many.kept)) <= 3 * count and ("p5", "c7") in held(many.kept)
    assert "p0" in many and "c0" in many and "another" not in many
    assert many.to_verify(lambda _: {("p5", "c7")}) is None  # one copy among look-alikes
    (candidate,) = by_shard([copy], templates=(many,))[0]
    assert candidate.template


def test_a_picture_that_a_corpus_holds_many_times_is_verified_throughout() -> None:
    copies = [row("p", f"c{n:02d}", 1 - n / 1000, method="pdq") for n in range(3 * HUB)]
    many = chosen(copies[: 2 * HUB], copies[2 * HUB :])
    proven = set(held(many.kept))
    assert len(proven) < len(copies)
    assert held(many.to_verify(lambda _: proven)) == held(many.passed_over)
    _, *others = passed = [row for _, rows in many.passed_over for row in rows]
    near = [
        {**passed[0], "method": "pixels"}
    ]  # an encoder proposed it, too: it was verified before
    assert held(many.to_verify(lambda _: proven, near)) == held([(0, others)])


def near_to_many(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Of the pictures of both sides with too many neighbours the nearest ones, from all rows at once."""
    near: dict[str, dict[str, list[float]]] = {}
    for each in rows:
        for side, other in (("picture", "digest"), ("digest", "picture")):
            scores = near.setdefault(each[side], {}).setdefault(each[other], [-1.0, -1.0])
            place = int(each["method"] != "pdq")
            scores[place] = max(scores[place], each["similarity"])
    return {
        side: set(sorted(values, key=lambda other: (values[other], other))[-3:])
        for side, values in near.items()
        if len(values) > HUB
    }


def test_pairs_on_disk_are_chosen_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heldout.store.partitions._HELD", 50)
    draw = random.Random(4)
    shards = []
    for _ in range(12):
        drawn = {
            (f"p{draw.randrange(30)}", f"c{draw.randrange(40)}", draw.choice(("pdq", "phash")))
            for _ in range(60)
        }
        # The same file is as near wherever it lies.
        shards.append(
            [
                row(
                    p,
                    f"{draw.random()}",
                    random.Random(p + c + m).randrange(7) / 64,
                    digest=c,
                    method=m,
                )
                for p, c, m in sorted(drawn)
            ]
        )
    nearest = near_to_many([each for rows in shards for each in rows])
    many = chosen(*shards)
    assert {name for name in nearest if name in many} == set(nearest)
    assert {f"p{n}" for n in range(30)} & set(nearest) and {f"c{n}" for n in range(40)} - set(
        nearest
    )
    for rows, (_, frame) in zip(shards, many.shards, strict=True):
        expected = [
            each["digest"] in nearest.get(each["picture"], [each["digest"]])
            and each["picture"] in nearest.get(each["digest"], [each["picture"]])
            for each in rows
        ]
        assert many._stay(frame).tolist() == expected


def test_pairs_of_a_shard_come_together_in_its_order() -> None:
    near = [row("p", "z", 0.5, shard=4), row("p", "a", 0.9, shard=1)]
    hashed = [
        (1, [row("q", "b", 0.9, shard=1), row("p", "a", 0.9, shard=1)]),
        (3, [row("q", "c", 0.9, shard=3)]),
    ]
    pairs = list(PairsByShard(near, hashed))
    assert dict(pairs) == by_shard(near, [entry for _, rows in hashed for entry in rows])
    assert [shard for shard, _ in pairs] == [1, 3, 4]


def test_what_is_surely_alike_needs_no_place_unless_it_is_a_template() -> None:
    def alike(count: int) -> list[dict[str, Any]]:
        return [
            row("p", f"c{n}", 0.7, aspect="words", score=0.5 - n / 1000, sure=True)
            for n in range(count)
        ]

    other = row("p", "x", 0.2, aspect="layout", score=0.9)
    assert len(nearest_overall([*alike(HUB), other], 3)) == HUB + 1
    assert len(nearest_overall([*alike(HUB + 1), other], 3)) <= 4


def test_pictures_that_hang_together_by_many_are_a_series() -> None:
    def alike(picture: str, corpus: str, sure: bool = True) -> dict[str, object]:
        return {"picture": picture, "digest": corpus, "corpus_id": corpus, "sure": sure}

    # No picture has more than two neighbours, and yet all nine are charts of one template.
    chain = [alike(f"q{n}", f"c{n + step}") for n in range(4) for step in (0, 1)]
    few = [alike("p", "d"), alike("p", "e"), alike("q0", "far", sure=False)]
    names = in_series([*chain, *few])
    assert names == {f"q{n}" for n in range(4)} | {f"c{n}" for n in range(5)}
    assert not in_series(chain[:-1] + few)
