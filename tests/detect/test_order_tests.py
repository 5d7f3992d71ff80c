from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy import stats

from heldout.detect import Finding, NotTestable, detectors
from heldout.detect.order_joint import joint_shards, shard_gains, sharded_t
from heldout.errors import InputError
from heldout.lab.power.planted_scores import PLANTED, TARGET, planted_scores
from heldout.model.order import plan_joint

QUICK = PLANTED.model_copy(update={"permutations": 999})


def _target(detector: str, tables: object) -> Finding | NotTestable:
    found = detectors()[detector].find(tables, QUICK)  # type: ignore[arg-type]
    return next(one for one in found if one.cell.model == TARGET)


def test_the_sharded_t_is_students_with_the_unbiased_variance() -> None:
    tables = planted_scores(1, dose=0.4)
    assert tables.order_joint is not None
    gains = shard_gains(joint_shards(tables.order_joint, TARGET))
    t, p = sharded_t(gains)
    expected = stats.ttest_1samp(gains, 0.0, alternative="greater")
    assert (t, p) == pytest.approx((expected.statistic, expected.pvalue))
    far = sharded_t(np.linspace(50.0, 51.0, 30))  # 1 - cdf would give 0 here
    assert 0 < far[1] < 1e-40


def test_exact_and_t_version_agree_about_a_clear_case() -> None:
    finding = _target("order-joint", planted_scores(1, dose=2.0))
    assert isinstance(finding, Finding)
    assert finding.p is not None
    assert finding.p < 0.01
    assert finding.details["p_t_one_sided"] < 0.01
    assert finding.statistic.value > 0


def test_the_opposite_tail_is_reported_as_such_and_not_as_clean() -> None:
    tables = planted_scores(1, dose=-2.0)
    for detector in ("order-joint", "order-neighbour"):
        finding = _target(detector, tables)
        assert isinstance(finding, Finding)
        assert finding.p is not None
        assert finding.p <= 0.01
        assert finding.direction == "not seen"


def test_two_shuffled_shards_are_a_small_sample_and_p_says_so() -> None:
    """Two shards with three shuffles have 16 orders: p cannot be below 1/16."""
    tables = planted_scores(1, dose=50.0, shards=2, shuffles=3)
    finding = _target("order-joint", tables)
    assert isinstance(finding, Finding)
    assert finding.p is not None
    assert finding.p > 1 / 25


@pytest.mark.parametrize("detector", ["order-joint", "order-neighbour"])
def test_without_its_table_an_order_test_is_not_testable(detector: str) -> None:
    bare = replace(planted_scores(1), order_joint=None, order_neighbour=None)
    outcome = _target(detector, bare)
    assert isinstance(outcome, NotTestable)
    assert "order_" in outcome.reason


@pytest.mark.parametrize("detector", ["order-joint", "order-neighbour"])
def test_doubled_or_broken_rows_are_refused(detector: str) -> None:
    tables = planted_scores(1)
    field = detector.replace("-", "_")
    frame = getattr(tables, field)
    with pytest.raises(InputError, match="twice"):
        _target(detector, replace(tables, **{field: pl.concat([frame, frame.head(40)])}))
    with pytest.raises(InputError, match="NaN"):
        _target(detector, replace(tables, **{field: frame.with_columns(logprob=float("nan"))}))


def test_a_plan_keeps_clusters_whole_and_within_budget() -> None:
    rng = np.random.default_rng(0)
    clusters = [str(code) for code in np.repeat(np.arange(96), rng.integers(5, 18, 96))]
    tokens = [int(count) for count in rng.integers(20, 60, len(clusters))]
    plan = plan_joint(tokens, clusters, budget=2_000_000, context=4096)
    assert plan.left_out == 0
    assert plan.tokens <= 2_000_000
    assert f"{plan.tokens:,} tokens" in plan.sentence()
    released = [place for shard in range(len(plan.shards)) for place in plan.order(shard, None)]
    assert released == list(range(len(clusters)))
    for shard in range(len(plan.shards)):
        order = plan.order(shard, 3)
        assert sorted(order) == plan.order(shard, None)
        assert order == plan.order(shard, 3)
        runs = 1 + sum(clusters[a] != clusters[b] for a, b in pairwise(order))
        assert runs == len({clusters[place] for place in order})
        assert sum(tokens[place] for place in order) <= 4096
    assert plan.order(0, 1) != plan.order(0, 2) or len(plan.shards[0]) == 2
    assert plan_joint(tokens, clusters, budget=10_000_000).shuffles >= plan.shuffles


def test_no_order_is_read_twice_and_the_released_one_only_once() -> None:
    clusters = [str(i // 3) for i in range(60)]
    plan = plan_joint([20] * 60, clusters, budget=200_000)
    for shard, blocks in enumerate(plan.shards):
        assert len(blocks) >= 4
        orders = [tuple(plan.order(shard, n)) for n in range(plan.shuffles_of(shard))]
        assert len({*orders, tuple(plan.order(shard, None))}) == len(orders) + 1
        assert 23 <= len(orders) <= plan.shuffles


def test_a_small_budget_leaves_shards_out_and_says_so() -> None:
    clusters, tokens = [str(i // 2) for i in range(400)], [50] * 400
    plan = plan_joint(tokens, clusters, budget=30_000)
    assert 2 <= len(plan.shards) < 50
    assert plan.tokens <= 30_000
    assert plan.left_out > 0
    assert "left out" in plan.sentence()
    with pytest.raises(InputError, match="smallest useful budget"):
        plan_joint(tokens, clusters, budget=500)
    with pytest.raises(InputError, match="neighbouring clusters"):
        plan_joint([5000] * 10, [str(i) for i in range(10)], budget=10**9)


def test_no_shard_is_longer_than_the_context() -> None:
    tokens = [int(count) for count in np.random.default_rng(0).integers(100, 900, 100)]
    plan = plan_joint(tokens, [str(i) for i in range(100)], budget=10**9, context=1200)
    costs = [sum(tokens[place] for place in plan.order(s, None)) for s in range(len(plan.shards))]
    assert max(costs) <= 1200
    assert plan.left_out < 50  # neighbours that do not fit together are left out, and counted
    assert plan.left_out == 100 - sum(len(shard) for shard in plan.shards)
