from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from heldout.stats import binomial_interval
from heldout.stats.intervals import draws_needed, excess_p, upper_quantile


@pytest.mark.parametrize(("n", "alpha"), [(100, 0.05), (500, 0.01), (5000, 0.001), (777, 0.1)])
def test_interval_ends_are_the_order_statistics_the_binomial_gives(n: int, alpha: float) -> None:
    sample = np.arange(n, dtype=float)  # the r-th largest is n - r
    found = upper_quantile(sample, alpha)
    above = stats.binom(n, alpha)  # how many draws lie above the true quantile
    upper = max(r for r in range(n + 1) if r == 0 or above.cdf(r - 1) <= 0.025)
    lower = min(r for r in range(1, n + 2) if above.sf(r - 1) <= 0.025)
    assert (found.interval.high, found.interval.low) == (n - upper, n - lower)
    assert found.value == n - math.floor(alpha * (n + 1) + 1e-9)
    assert found.interval.method == "order statistics"


def test_interval_covers_whatever_the_distribution() -> None:
    rng = np.random.default_rng(0)
    rounds = 500
    for draw, truth in [
        (lambda: rng.random(400), 0.95),
        (lambda: rng.standard_cauchy(400), float(stats.cauchy.ppf(0.95))),
    ]:
        covered = 0
        for _ in range(rounds):
            low, high, *_ = upper_quantile(draw(), 0.05).interval
            covered += low <= truth <= high
        low, high = stats.binom.interval(0.99, rounds, 0.95)
        assert covered >= low  # exact: never less than said, but for chance
        assert covered <= 0.99 * rounds  # and not by being endless


def test_draws_in_pairs_need_the_design_effect() -> None:
    rng = np.random.default_rng(1)
    rounds = 400
    aware = naive = 0
    for _ in range(rounds):
        sample = np.repeat(rng.random(200), 2)
        low, high, *_ = upper_quantile(sample, 0.1, design_effect=2.0).interval
        aware += low <= 0.9 <= high
        low, high, *_ = upper_quantile(sample, 0.1).interval
        naive += low <= 0.9 <= high
    assert aware >= stats.binom.ppf(0.005, rounds, 0.95)
    assert naive / rounds < 0.90


def test_a_fresh_draw_exceeds_the_quantile_with_probability_alpha_at_most() -> None:
    rng = np.random.default_rng(2)
    exceeding = [1.0 - upper_quantile(rng.random(119), 0.05).value for _ in range(3000)]
    # Of a uniform sample it is 6 / 120 on average: alpha, where (n + 1) alpha is whole.
    assert np.mean(exceeding) == pytest.approx(0.05, abs=4 * np.std(exceeding) / math.sqrt(3000))
    exceeding = [1.0 - upper_quantile(rng.random(130), 0.05).value for _ in range(3000)]
    assert np.mean(exceeding) < 0.05


def test_a_sample_too_small_for_alpha_is_refused() -> None:
    assert draws_needed(0.001) == 5000
    assert draws_needed(0.01, 2.0) == 1000
    upper_quantile(np.zeros(5000), 0.001)
    with pytest.raises(ValueError, match="4999 draws"):
        upper_quantile(np.zeros(4999), 0.001)
    with pytest.raises(ValueError, match="between 0 and 1"):
        upper_quantile(np.zeros(10), 1.0)


def test_excess_p_is_beta_binomial() -> None:
    quantile = upper_quantile(np.arange(500.0), 0.02)
    law = stats.betabinom(96, quantile.rank, 501 - quantile.rank)
    for flagged in (1, 4, 19):
        assert excess_p(flagged, 96, quantile) == pytest.approx(law.sf(flagged - 1), rel=1e-9)
    assert excess_p(0, 96, quantile) == 1.0


def test_excess_p_is_calibrated_where_a_plain_binomial_is_not_and_has_power() -> None:
    rng = np.random.default_rng(4)
    rounds = 1500
    false = plain = true = 0
    for _ in range(rounds):
        quantile = upper_quantile(rng.random(200), 0.05)
        tested = rng.random(400)
        flagged = int((tested > quantile.value).sum())
        false += excess_p(flagged, 400, quantile) <= 0.05
        plain += binomial_interval(flagged, 400, 0.90).low > 0.05
        leaked = int((tested[:340] > quantile.value).sum()) + 60
        true += excess_p(leaked, 400, quantile) <= 0.05
    assert false <= stats.binom.ppf(0.995, rounds, 0.05)
    assert false >= stats.binom.ppf(0.005, rounds, 0.03)  # a count is coarse, but not that coarse
    assert plain / rounds > 0.10
    assert true / rounds > 0.95
