"""Every detector: higher = seen, uniform p under the null, power in the dose, the same answer twice."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from scipy import stats

from heldout.detect import Finding, NotTestable, detectors, run_detectors
from heldout.lab import ConformSettings
from heldout.lab.power.conform import REQUIREMENTS, conform
from heldout.lab.power.planted_scores import PLANTED, TARGET, planted_scores
from heldout.stats.intervals import binomial_band

NAMES = sorted(detectors())
SCORED = [name for name in NAMES if detectors()[name].needs == "scores"]
# Dose 0 is what the requirement on false alarms is about: no second time for power.
SHORT = ConformSettings(cells=20, power_cells=4, doses=(1.0, 4.0), permutations=99)
QUICK = PLANTED.model_copy(update={"permutations": 999})


def test_every_detector_of_the_issue_is_there() -> None:
    assert set(NAMES) >= {
        "order-joint",
        "order-neighbour",
        "order-trend",
        "min-k",
        "min-k++",
        "loss",
        "zlib",
        "max-renyi-k",
        "perplexity-ratio",
        "tail-enrichment",
        "top-k-overlap",
        "blind",
    }


@pytest.mark.parametrize("requirement", REQUIREMENTS)
@pytest.mark.parametrize("name", NAMES)
def test_it_meets_the_requirement(name: str, requirement: str) -> None:
    """The same suite as heldout lab conform, which others run on their detectors."""
    result = conform(detectors()[name], SHORT, only=[requirement])
    if name == "blind" and requirement in ("power", "complete"):
        assert not result.checks  # it asks no model: it cannot call one seen
    else:
        (check,) = result.checks
        assert check.passed, check.detail


def test_a_failed_self_check_makes_nothing_testable() -> None:
    tables = planted_scores(0)
    constant = pl.when(pl.col("model") == TARGET).then(-1.0).otherwise(pl.col("sum_logprob"))
    same = pl.when(pl.col("model") == TARGET).then(1).otherwise(pl.col("n_tokens")).cast(pl.Int32)
    broken = replace(
        tables,
        scores=tables.scores.with_columns(constant.alias("sum_logprob"), same.alias("n_tokens")),
    )
    outcomes, checks = run_detectors(broken, (), QUICK)
    mine = [one for one in outcomes if one.cell.model == TARGET]
    assert len(mine) == len(SCORED)
    assert all(isinstance(one, NotTestable) and "self-check" in one.reason for one in mine)
    assert not all(check.passed for check in checks[TARGET])
    assert any(isinstance(one, Finding) for one in outcomes)  # the others are tested all the same


def test_without_unseen_items_item_scores_say_what_would_make_them_testable() -> None:
    outcomes, _ = run_detectors(
        planted_scores(0), ("min-k", "blind"), QUICK.model_copy(update={"unseen": None})
    )
    assert outcomes
    for one in outcomes:
        assert isinstance(one, NotTestable)
        assert "the setting unseen" in one.reason


def test_the_band_is_the_binomial_one() -> None:
    for cells in (80, 500):
        low, high = binomial_band(cells, 0.05)
        inside = stats.binom.cdf(high, cells, 0.05) - stats.binom.cdf(low - 1, cells, 0.05)
        assert inside >= 0.99
        assert stats.binom.cdf(low, cells, 0.05) > 0.005
