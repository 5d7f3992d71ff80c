from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from heldout.detect import DetectSettings, Finding, ScoreTables, detectors
from heldout.detect.item_scores import MIN_K_PLUS_PLUS
from heldout.lab.confound import _cohort
from heldout.lab.power.planted_scores import BASELINE, PLANTED, TARGET, planted_scores
from heldout.lab.settings import ConfoundSettings
from heldout.stats.grouping import aligned_ranks, block_means
from heldout.verdict.challenge import against_baseline
from heldout.verdict.controls.cohort import fit_gains, sweep_cohort
from heldout.verdict.controls.inflation import by_stratum, overlap_inflation
from heldout.verdict.controls.orders import OrderResult, ablate_orders, adjusted_trend

QUICK = PLANTED.model_copy(update={"permutations": 999})
DIFFERENCES = ("order-trend", "order-joint", "order-neighbour", "min-k", "loss")
PUBLISHED_GAPS = {
    "CheXagent-8b": -0.215,
    "LLaVA-OneVision-7B": 0.032,
    "InternVL3-8B": -0.143,
    "Qwen2.5-VL-7B": 0.269,
    "BLIP-2": 0.028,
}


def _finding(tables: ScoreTables, detector: str, model: str) -> Finding:
    found = detectors()[detector].find(tables, QUICK)
    return next(one for one in found if isinstance(one, Finding) and one.cell.model == model)


@pytest.mark.parametrize("detector", DIFFERENCES)
def test_a_difference_in_differences_finds_memory_and_not_structure(detector: str) -> None:
    seen = planted_scores(2, dose=4.0)
    found = against_baseline(seen, _finding(seen, detector, TARGET), BASELINE, QUICK)
    assert not isinstance(found, str)
    assert found.p <= 0.05
    assert found.value > 0
    assert found.interval.low <= found.value <= found.interval.high
    alarms = 0
    for seed in range(8):
        clean = planted_scores(100 + seed)
        difference = against_baseline(clean, _finding(clean, detector, TARGET), BASELINE, QUICK)
        assert not isinstance(difference, str)
        alarms += difference.p <= 0.05
    assert alarms <= 3  # P(more) < 0.0005 at the 5 % level


def test_scores_of_another_backend_are_never_compared() -> None:
    tables = planted_scores(0)
    identities = {TARGET: {"backend": "transformers"}, BASELINE: {"backend": "endpoint"}}
    mixed = replace(tables, identities=identities)
    told = against_baseline(mixed, _finding(tables, "loss", TARGET), BASELINE, QUICK)
    assert isinstance(told, str)
    assert "across backends" in told


def _orders(tables: ScoreTables, settings: DetectSettings = QUICK) -> dict[str, OrderResult]:
    return {one.order: one for one in ablate_orders(tables, TARGET, settings)}


def _p(one: OrderResult) -> float:
    assert one.p is not None
    return one.p


def test_other_orders_are_read_for_what_they_are() -> None:
    orders = _orders(planted_scores(4, dose=4.0))
    assert _p(orders["release"]) <= 0.01
    assert _p(orders["by_content_hash"]) > 0.05
    assert "proves nothing" in orders["by_content_hash"].note
    assert _p(orders["by_logprob"]) <= 0.01
    assert "by construction" in orders["by_logprob"].note
    assert _p(orders["cluster_shuffles"]) > 0.05


def test_by_mink_pp_sorts_by_its_own_score_and_not_by_the_log_probability() -> None:
    """Min-K%++ turned upside down: the sort by it turns, the one by log p does not."""
    tables = planted_scores(4)
    settings = QUICK.model_copy(update={"strata": ()})
    scored = tables.scored(TARGET)
    hardest = MIN_K_PLUS_PLUS.score(tables, scored, settings)
    assert not isinstance(hardest, str)
    orders = _orders(tables, settings)
    means, _ = block_means(aligned_ranks(scored.means), scored.clusters)
    keys, _ = block_means(hardest, scored.clusters)
    by_hand = np.corrcoef(means[np.argsort(keys)], np.linspace(1, -1, len(means)))[0, 1]
    assert orders["by_mink_pp"].rho == pytest.approx(by_hand)
    assert orders["by_mink_pp"].rho != orders["by_logprob"].rho
    # mu of the item's own tokens moves the score and leaves the log-probability alone.
    easy = dict(zip(scored.frame["benchmark_id"], 1e3 * hardest, strict=True))
    lists = [
        [one + easy.get(item, 0.0) for one in mu] if model == TARGET else mu
        for mu, item, model in tables.scores.select("mu", "benchmark_id", "model").iter_rows()
    ]
    turned = replace(tables, scores=tables.scores.with_columns(mu=pl.Series(lists)))
    after = _orders(turned, settings)
    assert after["by_logprob"] == orders["by_logprob"]
    assert (orders["by_mink_pp"].rho or 0.0) < -0.5 < 0.5 < (after["by_mink_pp"].rho or 0.0)


def test_by_mink_pp_says_when_it_was_not_recorded() -> None:
    tables = planted_scores(4)
    empty = pl.lit([], dtype=pl.List(pl.Float64))
    without = replace(tables, scores=tables.scores.with_columns(mu=empty, sigma=empty))
    one = _orders(without)["by_mink_pp"]
    assert (one.rho, one.p) == (None, None)
    assert "mu and sigma" in one.note


def test_a_sort_by_a_constant_is_the_released_order_and_says_so() -> None:
    tables = planted_scores(4, dose=4.0)
    same = tables.items.with_columns(answer=tables.items["answer"].str.replace(".*", "yes"))
    orders = _orders(replace(tables, items=same), QUICK.model_copy(update={"strata": ()}))
    assert orders["by_answer_len"].p == orders["release"].p
    assert "never varies" in orders["by_answer_len"].note


def test_a_trend_that_answer_length_makes_is_gone_when_it_is_taken_out() -> None:
    tables = planted_scores(5)
    n = len(tables.items)
    answers = ["x" * int(1 + 40 * (n - place) / n) for place in range(n)]
    items = tables.items.with_columns(answer=np.asarray(answers))
    lift = dict(zip(items["benchmark_id"], np.linspace(30, 0, n), strict=True))
    target = tables.scores["model"] == TARGET
    totals = [
        total + lift[item] if mine else total
        for total, item, mine in zip(
            tables.scores["sum_logprob"], tables.scores["benchmark_id"], target, strict=True
        )
    ]
    sorted_by_length = replace(
        tables, items=items, scores=tables.scores.with_columns(sum_logprob=np.asarray(totals))
    )
    plain = QUICK.model_copy(update={"strata": ()})
    found = next(
        one
        for one in detectors()["order-trend"].find(sorted_by_length, plain)
        if isinstance(one, Finding) and one.cell.model == TARGET
    )
    assert found.p is not None
    assert found.p <= 0.01
    left = adjusted_trend(sorted_by_length, TARGET, plain)
    assert left is not None
    assert left.test.p > 0.05


def test_gain_fit_explains_the_confound_and_not_a_planted_memory() -> None:
    rng = np.random.default_rng(0)
    scores = _cohort(ConfoundSettings(), (0.05, 0.05, 1.0, 1.0, 1.0), rng)
    models = ["low a", "low b", "high a", "high b", "clean baseline"]
    fits = {fit.model: fit for fit in fit_gains(scores, models)}
    assert fits["clean baseline"].tail_rate > 0.25
    assert fits["clean baseline"].explained > 0.9
    assert fits["low a"].tail_rate == 0.0
    even = _cohort(ConfoundSettings(), (1.0,) * 5, rng)
    even[0, rng.random(even.shape[1]) < 0.2] += 400.0
    seen = fit_gains(even, models)[0]
    assert seen.tail_rate > 0.15
    assert seen.explained < 0.2
    everything = _cohort(ConfoundSettings(), (1.0,) * 5, rng)
    everything[0] += 150.0  # memory of every item looks like an offset, which explains nothing away
    assert fit_gains(everything, models)[0].explained < 0.2


def test_a_flag_that_depends_on_the_company_is_seen_in_the_sweep() -> None:
    scores = _cohort(ConfoundSettings(), (0.05, 0.05, 1.0, 1.0, 1.0), np.random.default_rng(1))
    models = ["low a", "low b", "high a", "high b", "probe"]
    found = sweep_cohort(scores, models, "probe")
    assert len(found) == 6 + 4 + 1  # pairs, triples and all four of the others
    assert {one.flagged for one in found} == {True, False}
    only_high = next(one for one in found if set(one.others) == {"high a", "high b"})
    assert not only_high.flagged


def test_strata_have_intervals_where_clusters_allow_one() -> None:
    values = np.random.default_rng(0).normal(size=120)
    clusters = [str(i // 4) for i in range(120)]
    labels = ["rare" if i < 8 else "common" for i in range(120)]
    common, rare = by_stratum(values, clusters, labels)
    assert (common.n, rare.n, rare.clusters) == (112, 8, 2)
    assert rare.interval is None
    assert common.interval is not None
    assert common.interval.low < common.value < common.interval.high


def test_overlap_inflation_reproduces_the_published_gaps_and_adds_intervals(
    shared_data: Path,
) -> None:
    golden = json.loads(
        (shared_data.parent / "golden/medvlm/slake_en_overlap_inflation.json").read_text()
    )
    official = json.loads((shared_data / "slake/official_test.json").read_text())
    image = {row["qid"]: row["img_name"] for row in official}
    records = golden["records"]
    clusters = [image[int(record["example_id"].rsplit("::", 1)[1])] for record in records]
    scores = {m: [record["mean_logprob"][m] for record in records] for m in golden["models"]}
    found = overlap_inflation(
        scores,
        [record["flagged"] for record in records],
        clusters,
        baseline="BLIP-2",
        strata=[record["answer_type"] for record in records],
    )
    whole = {one.model: one for one in found if one.stratum == "all"}
    assert {model: round(one.gap.value, 3) for model, one in whole.items()} == PUBLISHED_GAPS
    for one in whole.values():
        assert one.gap.clusters == (19, 77)  # images, not the 247 and 814 questions
        assert one.gap.n == (247, 814)
        assert one.gap.interval.low < one.gap.value < one.gap.interval.high
    # Read alone, one of the five stands out; less the baseline's gap, none does.
    outside = [
        m for m, one in whole.items() if not one.gap.interval.low <= 0 <= one.gap.interval.high
    ]
    assert outside == ["Qwen2.5-VL-7B"]
    for model, one in whole.items():
        if model != "BLIP-2":
            assert one.above_baseline is not None
            assert one.above_baseline.interval.low <= 0 <= one.above_baseline.interval.high
    assert {one.stratum for one in found} == {"all", "CLOSED", "OPEN"}
