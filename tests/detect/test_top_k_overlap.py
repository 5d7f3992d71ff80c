from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from heldout.detect import DetectSettings, Finding, ScoreTables
from heldout.detect.top_k_overlap import find, hypergeometric_tail, overlap_of, top_items
from heldout.lab.power.planted_scores import planted_scores


@pytest.mark.parametrize(
    ("least", "first", "second", "n"),
    [
        (3, 25, 25, 1061),
        (25, 25, 25, 1061),
        (1, 10, 20, 100),
        (0, 5, 5, 50),
        (6, 5, 5, 50),
        (8, 9, 9, 10),
    ],
)
def test_the_tail_is_hypergeometric(least: int, first: int, second: int, n: int) -> None:
    expected = stats.hypergeom.sf(least - 1, n, first, second)
    assert hypergeometric_tail(least, first, second, n) == pytest.approx(expected, rel=1e-9)


def test_overlap_by_hand() -> None:
    found = overlap_of(["a", "b", "c"], ["b", "c", "d"], 12)
    assert (found.intersection, found.union, found.jaccard) == (2, 4, 0.5)
    assert found.expected == pytest.approx(0.75)
    assert found.lift == pytest.approx(2 / 0.75)


def test_equal_scores_are_ranked_by_id() -> None:
    assert top_items(["b", "a", "c"], np.asarray([1.0, 1.0, 2.0]), 2) == ["c", "a"]


def _easy_images(seed: int) -> ScoreTables:
    """Two models, each of which finds a few whole images easy, and not the same ones."""
    tables = planted_scores(seed, shared=0.0)
    rng = np.random.default_rng(seed)
    clusters = tables.items["cluster"].unique(maintain_order=True).to_list()
    frames = []
    for model in ("target", "accomplice"):
        level = dict(zip(clusters, 6.0 * rng.normal(size=len(clusters)), strict=True))
        item = dict(zip(tables.items["benchmark_id"], tables.items["cluster"], strict=True))
        mine = tables.scores.filter(pl.col("model") == model)
        totals = [-30.0 + level[item[one]] + 0.1 * rng.normal() for one in mine["benchmark_id"]]
        empty = pl.lit([], dtype=pl.List(pl.Float64))
        frames.append(mine.with_columns(sum_logprob=pl.Series(totals), mu=empty, sigma=empty))
    return replace(tables, scores=pl.concat(frames))


def test_items_of_one_image_are_easy_together_and_only_the_cluster_p_knows() -> None:
    rounds, clustered, plain = 80, 0, 0
    for seed in range(rounds):
        (finding,) = find(_easy_images(seed), DetectSettings(top=20, permutations=199, seed=seed))
        assert isinstance(finding, Finding)
        assert finding.p is not None
        clustered += finding.p <= 0.05
        plain += finding.details["p_hypergeometric"] <= 0.05
    assert clustered <= stats.binom.ppf(0.995, rounds, 0.05)
    assert plain > stats.binom.ppf(0.995, rounds, 0.05)
