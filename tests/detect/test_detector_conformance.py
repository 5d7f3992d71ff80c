"""Every detector: higher = seen, uniform p under the null, power in the dose, the same answer twice."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from scipy import stats

from heldout.detect import Finding, NotTestable, ScoreTables, detectors, run_detectors
from heldout.lab.power.conformance import (
    clean_cells,
    null_calibration,
    planted_for,
    power_by_dose,
    target_finding,
)
from heldout.lab.power.planted_scores import PLANTED, TARGET, planted_scores
from heldout.stats.intervals import binomial_band

NAMES = sorted(detectors())
SCORED = [name for name in NAMES if detectors()[name].needs == "scores"]
SEEING = [name for name in NAMES if name != "blind"]  # blind asks no model: it cannot call one seen
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


@pytest.mark.parametrize("name", SEEING)
def test_what_was_planted_is_called_seen_and_more_of_it_more_often(name: str) -> None:
    none, some, much = power_by_dose(detectors()[name], (0.0, 1.0, 4.0), 5, permutations=99)
    assert none <= some <= much + 0.2
    assert much >= 0.75
    assert none <= 0.4


@pytest.mark.parametrize("name", NAMES)
def test_false_alarms_on_clean_cells_lie_in_their_band(name: str) -> None:
    found = null_calibration(detectors()[name], 25, permutations=99)
    assert found.holds, found


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_and_any_order_of_rows_give_the_same_finding(name: str) -> None:
    tables, settings = planted_for(detectors()[name], 3, dose=1.0)
    quick = settings.model_copy(update={"permutations": 999})
    first = target_finding(detectors()[name], tables, quick)
    assert first == target_finding(detectors()[name], tables, quick)

    def shuffled(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        return frame if frame is None else frame.sample(fraction=1.0, shuffle=True, seed=9)

    items, scores = shuffled(tables.items), shuffled(tables.scores)
    assert items is not None
    assert scores is not None
    mixed = ScoreTables(
        tables.benchmark,
        items,
        scores,
        shuffled(tables.order_joint),
        shuffled(tables.order_neighbour),
        shuffled(tables.answers),
    )
    assert target_finding(detectors()[name], mixed, quick) == first


@pytest.mark.parametrize("name", SEEING)
def test_a_finding_is_complete(name: str) -> None:
    finding = next(clean_cells(detectors()[name], 1))
    assert finding.effect.low <= finding.effect.value <= finding.effect.high
    assert finding.minimum_detectable_effect > 0
    assert finding.blind_to
    assert finding.n >= finding.clusters > 0
    assert finding.details["p_tied"] > 0
    Finding.model_validate_json(
        finding.model_dump_json()
    )  # survives the file people script against


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
