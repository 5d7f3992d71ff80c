"""Appendix F's numbers: a table of the published shape gives the published statistics."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.synth.contamination import NearestItem, NearPairs, hamming_statistics, near_statistics

QUERIES, HIT, PAIRS = 8_220, 23, 47


def published() -> NearPairs:
    """47 pairs above .88 on 23 of 8,220 queries: one of them five times, the others one to three."""
    hits = [5, 4, 4, 3, 3, 3, 3, 3, 3, 2, 2, *[1] * 12]
    assert len(hits) == HIT and sum(hits) == PAIRS
    pairs = [
        (f"q{query}", f"item {place}", 0.89 - 0.001 * place)
        for query, count in enumerate(hits)
        for place in range(count)
    ]
    nearest = [*[0.89] * HIT, *[0.64] * (QUERIES - HIT)]
    return NearPairs(pairs, nearest, [f"image {query // 2}" for query in range(QUERIES)])


def test_the_published_statistics_come_out_of_a_table_of_that_shape() -> None:
    found = near_statistics(published(), (0.88,))
    assert (found["queries"], found["pairs"], found["queries_with_hits"]) == (QUERIES, PAIRS, HIT)
    assert f"{found['hit_rate']:.3%}" == "0.280%"
    assert round(found["hits_per_query"]["mean"], 1) == 2.0
    assert found["hits_per_query"]["max"] == 5
    overlap = found["overlap_at"]["0.88"]
    assert overlap["hits"] == HIT and overlap["rate"] == found["hit_rate"]
    low, high = overlap["interval"]
    assert low < overlap["rate"] < high < 0.01
    assert found["top_similarity"]["median"] == pytest.approx(0.89)
    assert found["max_similarity"]["median"] == pytest.approx(0.64)
    histogram = found["histogram"]
    assert sum(histogram["counts"]) == QUERIES
    assert histogram["counts"][histogram["edges"].index(0.85)] == HIT


def test_a_similarity_at_the_threshold_is_not_above_it() -> None:
    near = NearPairs([], [0.88, 0.5], ["a", "b"])
    assert near_statistics(near, (0.88,))["overlap_at"]["0.88"]["hits"] == 0


def test_no_query_is_no_rate() -> None:
    found = near_statistics(NearPairs([], [], []), (0.88,))
    assert found["hit_rate"] is None and found["hits_per_query"] is None
    assert found["overlap_at"]["0.88"]["rate"] is None


def test_hashes_count_images_within_4_8_and_16_bits() -> None:
    found = hamming_statistics([0, 4, 5, 8, 12, 17, 30], [f"image {n}" for n in range(7)])
    assert {d: one["hits"] for d, one in found["overlap_at"].items()} == {"4": 2, "8": 4, "16": 5}
    assert found["minimum"] == 0 and found["distance"]["median"] == 8
    assert found["histogram"][17] == 1 and sum(found["histogram"]) == 7
    assert found["overlap_at"]["16"]["interval"][1] <= 1


def test_items_that_come_in_parts_are_compared_like_all_at_once() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(400, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries, items = rows[:30], rows[30:]
    names = [f"item {number}" for number in range(len(items))]
    asked = [f"query {number}" for number in range(len(queries))]
    whole, parts = NearestItem(queries, 5, 0.5), NearestItem(queries, 5, 0.5)
    whole.compare(names, items)
    for start in range(0, len(items), 37):
        parts.compare(names[start : start + 37], items[start : start + 37])
    similar = queries @ items.T
    found, known = parts.pairs(asked).pairs, whole.pairs(asked).pairs
    assert [pair[:2] for pair in found] == [pair[:2] for pair in known]
    assert [pair[2] for pair in found] == pytest.approx([pair[2] for pair in known])
    assert parts.nearest == pytest.approx(similar.max(axis=1))
    expected = sum(min(5, int((row > 0.5).sum())) for row in similar)
    assert len(found) == expected > 60
    assert found[0][:2] == ("query 0", names[int(similar[0].argmax())])
    assert [parts.items[name] for name in names] == pytest.approx(similar.max(axis=0))


def test_both_populations_are_counted_before_and_after_the_removal() -> None:
    queries = np.eye(4, dtype=np.float32)[:3]
    rows = np.eye(4, dtype=np.float32)[[0, 0, 1, 3]]
    names = ["a", "a#1", "b", "c"]
    found = NearestItem(queries, 5, 0.88, removed={"a"})
    found.compare(names, rows, items=["a", "a", "b", "c"])
    told = found.both(found.pairs(["q0", "q1", "q2"]), (0.88,), {"a": "X", "b": "X", "c": "Y"})
    assert told["overlap_at"]["0.88"]["hits"] == 1
    assert told["before_removal"]["overlap_at"]["0.88"]["hits"] == 2
    items = {name: part["overlap_at"]["0.88"] for name, part in told["by_item"].items()}
    assert told["by_item"]["before_removal"]["items"] == 3 and items["before_removal"]["hits"] == 2
    assert told["by_item"]["published"]["items"] == 2 and items["published"]["hits"] == 1
    assert items["published"]["interval"][0] <= 0.5 <= items["published"]["interval"][1]


def test_one_cluster_has_no_interval() -> None:
    found = hamming_statistics([0, 4, 30], ["image"] * 3)["overlap_at"]["4"]
    assert found["rate"] == pytest.approx(2 / 3) and found["interval"] is None and found["reason"]
