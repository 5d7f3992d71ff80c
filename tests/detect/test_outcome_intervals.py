"""Intervals stay where their effects can be: correlations in [-1, 1], areas above chance in [-.5, .5]."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heldout.detect import model_finding
from heldout.detect.finding import Effect, around, around_correlation
from heldout.errors import InputError
from heldout.stats.grouping import trend_test
from heldout.stats.paired import paired_test


@pytest.mark.parametrize("value", [-1.0, -0.97, -0.4, 0.0, 0.9, 1.0])
def test_a_correlation_s_interval_stays_between_minus_one_and_one(value: float) -> None:
    found = around_correlation(value, 0.4, "spread")
    assert -1.0 <= found.low <= value <= found.high <= 1.0
    assert found.low < found.high


def test_a_correlation_s_interval_covers_as_it_says() -> None:
    """True rank correlation by simulation; intervals of the permutation spread hold it 19 times of 20."""
    rng = np.random.default_rng(5)
    clusters, slope, held = 40, 1.1, []
    places = np.linspace(1.0, -1.0, clusters)
    draws = [places * slope + rng.standard_normal(clusters) for _ in range(1_000)]
    trends = [trend_test(draw, permutations=199, seed=1) for draw in draws]
    tested = [trend for trend in trends if trend is not None]
    assert len(tested) > 0.98 * len(trends)  # by chance neighbours may look like a run
    true = float(np.mean([trend.rho for trend in tested]))
    for trend in tested:
        interval = around_correlation(trend.rho, trend.error, "spread")
        held.append(interval.low <= true <= interval.high)
    assert 0.92 < np.mean(held) <= 1.0


def test_an_effect_with_bounds_has_an_interval_within_them() -> None:
    found = around(0.45, 0.2, "spread", (-0.5, 0.5))
    assert found.low == pytest.approx(0.058, abs=0.001)
    assert found.high == 0.5
    assert around(0.45, 0.2, "spread").high > 0.8


def test_a_difference_of_shares_has_an_interval_within_its_range() -> None:
    paired = paired_test([1.0, 1.0, -0.5], ["a", "b", "c"])
    assert -1.0 <= paired.interval.low < paired.interval.high == 1.0


def test_a_detector_may_give_the_two_ends_of_an_interval() -> None:
    def finding(interval: Any) -> Effect:
        return model_finding(
            "own",
            "bench",
            "m",
            unit="questions",
            statistic=("mean", 1.0),
            effect=("difference", 1.0, interval),
            error=0.5,
            p=0.2,
            n=9,
            clusters=9,
            blind_to=[],
            seed=0,
            table="scores",
            details={},
        ).effect

    effect = finding((0.0, np.float64(2.0)))
    assert (effect.low, effect.high, effect.level) == (0.0, 2.0, 0.95)
    for wrong in (None, 0.3, (1.0,), "wide"):
        with pytest.raises(InputError, match="^own: .*interval"):
            finding(wrong)
