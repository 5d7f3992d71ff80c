"""ROC from histograms: equal to counting pairs one by one, with intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from heldout.lab.transforms._counts import (
    BINS,
    SimilarityCurve,
    auc_interval,
    bin_of_threshold,
    bins_of,
    micro,
    placements,
    threshold_of_bin,
)
from heldout.lab.transforms.result import rate


def _curve(positives: np.ndarray, negatives: np.ndarray) -> SimilarityCurve:
    return SimilarityCurve(
        *(np.bincount(bins_of(micro(v)), minlength=BINS) for v in (positives, negatives))
    )


def test_auc_counts_every_pair_and_ties_half() -> None:
    rng = np.random.default_rng(0)
    positives = np.round(rng.normal(0.4, 0.2, 60), 1)
    negatives = np.round(rng.normal(0.2, 0.2, 500), 1)
    curve = _curve(positives, negatives)
    more = (positives[:, None] > negatives + 1e-9).mean()
    ties = (np.abs(positives[:, None] - negatives) < 1e-9).mean()
    assert ties > 0.05
    assert curve.auc() == pytest.approx(more + ties / 2, abs=1e-12)
    assert _curve(np.full(3, 0.5), np.full(4, 0.5)).auc() == 0.5


def test_a_pair_just_below_a_threshold_does_not_reach_it() -> None:
    similarities = np.array([0.98, 0.979999, 0.950001, 0.95, 0.949999, 1.0, -1.0])
    curve = _curve(similarities, similarities)
    assert curve.rates(bin_of_threshold(0.98))[0] == pytest.approx(2 / 7)
    assert curve.rates(bin_of_threshold(0.95))[1] == pytest.approx(5 / 7)
    assert threshold_of_bin(bin_of_threshold(0.95)) == 0.95


def test_a_calibrated_threshold_meets_its_rate_and_no_lower_one_does() -> None:
    negatives = np.random.default_rng(1).uniform(-1, 1, 20_000)
    curve = _curve(negatives, negatives)
    for target in (0.1, 0.01, 0.001):
        index = curve.threshold_at(target)
        assert index is not None
        assert curve.rates(index)[1] <= target < curve.rates(index - 1)[1] + 1e-4
        assert curve.rates(index - 1)[1] > target
    assert curve.threshold_at(1e-4) is None  # two pairs say nothing about a rate of 1e-4


def test_the_curve_rises_from_corner_to_corner() -> None:
    rng = np.random.default_rng(2)
    curve = _curve(rng.uniform(0, 1, 200), rng.uniform(-1, 0.5, 5000))
    thresholds, false, true = np.array(curve.points()).T
    assert (np.diff(thresholds) < 0).all()
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()
    assert false[-1] == true[-1] == 1.0
    assert true[0] > 0.4  # half of the copies are above every other pair
    assert false[0] <= 1 / 5000
    area = np.trapezoid(np.concatenate([[0], true]), np.concatenate([[0], false]))
    assert area == pytest.approx(curve.auc(), abs=0.01)


def test_the_auc_interval_covers_where_pairs_share_a_query() -> None:
    """Queries differ in how similar they are to everything: pairs are far from independent."""
    rng = np.random.default_rng(3)
    queries, others, draws, shift, spread = 80, 30, 150, 0.25, 0.15
    truth = float(special.ndtr(shift / (spread * np.sqrt(2 + 2 * 0.5**2))))
    covered = 0
    for _ in range(draws):
        hub = rng.normal(0, 0.5 * spread, (queries, 1))
        own = np.clip(rng.normal(shift, spread, (queries, 1)) + hub, -1, 1)
        rest = np.clip(rng.normal(0, spread, (queries, others)) + hub, -1, 1)
        curve = _curve(own.ravel(), rest.ravel())
        positive = placements(curve.negatives)[bins_of(micro(own))].sum(axis=1)
        negative = (1 - placements(curve.positives))[bins_of(micro(rest))].sum(axis=1)
        ones = np.ones(queries)
        found = auc_interval(positive.mean(), positive, ones, negative, ones * others)
        covered += found.low <= truth <= found.high
    assert 0.90 <= covered / draws < 1.0  # the 99 % binomial band of 150 draws


def test_perfect_separation_still_has_an_interval() -> None:
    ones = np.ones(50)
    found = auc_interval(1.0, ones, ones, ones * 49, ones * 49)
    assert found.high == 1.0
    assert 0.9 < found.low < 0.95


def test_a_rate_counts_one_query_once_however_many_transforms_it_has() -> None:
    names = [str(index) for index in range(20)]
    single = rate([1] * 15 + [0] * 5, [1] * 20, names)
    assert single.method == "clopper-pearson"
    repeated = rate([10] * 15 + [0] * 5, [10] * 20, names)
    assert repeated.value == single.value == 0.75
    assert repeated.high - repeated.low > 0.3  # as wide as for 20, not as narrow as for 200
    whole = rate([10] * 20, [10] * 20, names)
    assert (whole.high, whole.method) == (1.0, "clopper-pearson over clusters")
    assert whole.low == pytest.approx(0.83, abs=0.01)
    assert rate([1] * 20, [1] * 20, ["patient"] * 20).low < 0.03  # one patient is one observation
    nothing = rate([0], [0], ["a"])
    assert nothing.value is None
    assert nothing.n == 0
