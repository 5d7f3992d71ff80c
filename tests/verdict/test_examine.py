"""From tables to claims: what survives, what is qualified, what collapses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from measured_by_hand import NOTHING_MEASURED
from three_families import THREE_FAMILIES, in_three_families

from heldout.benchmark import items_table, read_benchmark
from heldout.detect import DetectSettings, ScoreTables
from heldout.lab.power.planted_scores import (
    BASELINE,
    MODELS,
    PLANTED,
    REFERENCE,
    TARGET,
    planted_scores,
)
from heldout.verdict import Claim
from heldout.verdict.controls.orders import trend_within_fields
from heldout.verdict.examine import examine

QUICK = PLANTED.model_copy(update={"permutations": 1999})
ORDER = ("order-joint", "order-neighbour", "order-trend")


def _claim(tables: ScoreTables, names: tuple[str, ...], claim: str, **changed: object) -> Claim:
    settings = QUICK.model_copy(update={**changed})  # type: ignore[arg-type]
    made = examine(tables, names, settings, NOTHING_MEASURED)
    return next(one for one in made.claims if one.id == claim)


def test_planted_memory_survives_and_says_what_it_passed() -> None:
    tables = in_three_families(planted_scores(2, dose=3.0))
    claim = _claim(tables, ORDER, "order/target", **THREE_FAMILIES)
    assert claim.status == "survives"
    assert claim.controls
    assert {control.outcome for control in claim.controls} == {"passed"}
    assert "has seen planted" in claim.sentence
    scores = ("min-k", "loss", "blind")
    tables = in_three_families(planted_scores(4, dose=3.0, clusters=80))
    members = _claim(tables, scores, "membership/target", **THREE_FAMILIES)
    assert members.status == "survives"
    assert {control.name for control in members.controls} >= {"blind"}


def test_references_of_one_family_confirm_no_claim_from_scores() -> None:
    """Nobody knows how far clean models differ in what fresh pictures or neighbours do to them."""
    tables = planted_scores(2, dose=3.0)
    for names, claim in ((("order-neighbour",), "order"), (("loss", "blind"), "membership")):
        made = _claim(tables, names, f"{claim}/target")
        assert (made.status, made.rule) == ("qualified", f"{claim}/control-missing")
        assert "3 families" in made.why


def test_a_clean_model_is_clean_with_the_effect_it_could_have_seen() -> None:
    claim = _claim(planted_scores(2), ORDER, "order/reference")
    assert claim.status == "clean"
    assert claim.rule == "order/quiet"


def test_without_a_baseline_nothing_is_more_than_qualified() -> None:
    claim = _claim(planted_scores(2, dose=3.0), ORDER, "order/target", baselines=())
    assert claim.status == "qualified"
    assert claim.controls[0].outcome == "missing"
    assert "baselines" in claim.next_step


def _all_alike(tables: ScoreTables) -> ScoreTables:
    """Every model shows the target's order effect: the release is sorted by difficulty."""
    target = tables.scores.filter(pl.col("model") == TARGET)
    rng = np.random.default_rng(0)
    frames = [
        target.with_columns(
            pl.lit(model).alias("model"),
            sum_logprob=pl.col("sum_logprob") + pl.Series(0.3 * rng.normal(size=len(target))),
        )
        for model in MODELS
    ]
    return replace(tables, scores=pl.concat(frames))


def test_an_effect_that_the_baseline_shows_too_is_re_attributed() -> None:
    tables = _all_alike(planted_scores(7, dose=4.0))
    claim = _claim(tables, ("order-trend",), "order/target")
    assert claim.status == "re-attributed"
    assert "fires too" in claim.why


def test_a_trend_alone_is_never_more_than_qualified() -> None:
    claim = _claim(planted_scores(2, dose=4.0), ("order-trend",), "order/target")
    assert claim.status == "qualified"
    missing = next(one for one in claim.controls if one.name == "conditional order test")
    assert missing.outcome == "missing"


def test_a_trend_that_the_releases_grouping_makes_is_re_attributed_without_any_baseline() -> None:
    """Radiographs first, and the target is good at radiographs: nobody has seen anything."""
    tables = planted_scores(9)
    clusters = tables.items["cluster"].unique(maintain_order=True).to_list()
    kind = {name: "X-Ray" if i < 0.45 * len(clusters) else "MRI" for i, name in enumerate(clusters)}
    metadata = [
        json.dumps({**json.loads(text), "modality": kind[cluster]})
        for text, cluster in zip(tables.items["metadata"], tables.items["cluster"], strict=True)
    ]
    items = tables.items.with_columns(metadata=pl.Series(metadata))
    good = dict(
        zip(items["benchmark_id"], [kind[c] == "X-Ray" for c in items["cluster"]], strict=True)
    )
    totals = [
        total * 0.3 if model == TARGET and good[item] else total
        for total, model, item in tables.scores.select(
            "sum_logprob", "model", "benchmark_id"
        ).iter_rows()
    ]
    scores = tables.scores.with_columns(sum_logprob=pl.Series(totals))
    grouped = replace(tables, items=items, scores=scores)
    for baselines in ((), (BASELINE,)):
        claim = _claim(grouped, ("order-trend",), "order/target", baselines=baselines)
        assert claim.status == "re-attributed"
        assert "grouped by modality" in claim.why


@pytest.fixture(scope="module")
def slake(shared_data: Path) -> ScoreTables:
    """SLAKE's English test split with the published mean log-probabilities of five models."""
    published = shared_data.parent / "golden/medvlm/slake_en_overlap_inflation.json"
    records = json.loads(published.read_text())["records"]
    benchmark = read_benchmark(f"{shared_data}/slake#split=test,lang=en")
    items = pl.from_arrow(items_table(benchmark))
    assert isinstance(items, pl.DataFrame)
    sums: dict[str, dict[str, float]] = {}
    for record in records:
        for model, value in record["mean_logprob"].items():
            sums.setdefault(model, {})[record["example_id"].rsplit("::", 1)[1]] = value
    return ScoreTables.of_sums("slake-en", items, sums)


def test_the_published_survivor_is_gone_within_what_slake_is_grouped_by(slake: ScoreTables) -> None:
    """Qwen2.5-VL × SLAKE-En fires as published, and more than the baseline; not within a body part."""
    settings = DetectSettings(baselines=("BLIP-2",))
    made = examine(slake, ("order-trend",), settings)
    qwen = next(f for f in made.findings if f.cell.model == "Qwen2.5-VL-7B")
    assert qwen.p is not None
    assert qwen.p < 0.01
    assert qwen.details["run"] > 1  # neighbouring images are alike: they are dealt out together
    assert (qwen.n, qwen.clusters) == (1061, 96)
    claim = next(one for one in made.claims if one.id == "order/Qwen2.5-VL-7B")
    assert claim.status == "re-attributed"
    outcomes = {control.name: control for control in claim.controls}
    assert (
        outcomes["external baseline BLIP-2"].outcome == "passed"
    )  # a baseline alone would let it pass
    assert outcomes["structure"].outcome == "failed"
    assert "grouped by location" in outcomes["structure"].reason
    within = {one.field: one for one in trend_within_fields(slake, "Qwen2.5-VL-7B", settings)}
    assert set(within) == {"content_type", "location", "modality"}
    assert within["location"].p > 0.05
    assert within["location"].rho < within["modality"].rho < qwen.effect.value
    broken = next(one for one in made.claims if one.id == "order/CheXagent-8b")
    assert broken.status == "not testable"
    assert "36 of 1,060 neighbouring items" in broken.why


def test_a_cohort_flag_collapses_when_the_baseline_is_flagged() -> None:
    tables = planted_scores(3, dose=3.0)
    lifted = pl.when(pl.col("model").is_in([TARGET, BASELINE])).then(-0.01).otherwise(-9.0)
    shape = pl.col("logprobs").list.len()
    scores = tables.scores.with_columns(
        lifted.alias("level"), logprobs=pl.col("logprobs"), n_tokens=shape.cast(pl.Int32)
    ).with_columns(
        logprobs=pl.struct("logprobs", "level").map_elements(
            lambda row: [row["level"] + 0.01 * value for value in row["logprobs"]],
            return_dtype=pl.List(pl.Float64),
        )
    )
    scores = scores.with_columns(sum_logprob=pl.col("logprobs").list.sum()).drop("level")
    claim = _claim(replace(tables, scores=scores), ("tail-enrichment",), "cohort/target", tail=3.0)
    assert claim.status in ("collapses", "clean")
    made = examine(
        replace(tables, scores=scores), ("tail-enrichment",), QUICK.model_copy(update={"tail": 3.0})
    )
    flags = {f.cell.model: f.details["flagged"] for f in made.findings}
    assert flags == {TARGET: True, BASELINE: True, REFERENCE: False, "accomplice": False}


def test_what_points_away_from_memory_beside_a_baseline_that_fires_does_not_look_seen() -> None:
    lower = _all_alike(planted_scores(7, dose=4.0))  # suspect and unseen items change their places
    claims = [_claim(lower, ("loss", "blind"), "membership/target", unseen=("origin", "public"))]
    tables = planted_scores(3, dose=3.0)
    swapped = pl.col("model").replace({TARGET: BASELINE, BASELINE: TARGET})
    remembers = replace(tables, scores=tables.scores.with_columns(swapped))
    claims.append(_claim(remembers, ("tail-enrichment",), "cohort/target", flag=0.3))
    for claim in claims:
        assert claim.status == "collapses"
        assert "looks seen" not in claim.sentence
    # The same effect on the side of memory, and a tail that is flagged though it is the shorter one.
    seen = _claim(lower, ("loss", "blind"), "membership/target")
    long = _claim(remembers, ("tail-enrichment",), "cohort/target", flag=0.05)
    for claim in (seen, long):
        assert claim.status == "collapses"
        assert "looks seen by" in claim.sentence


def test_a_cohort_without_a_baseline_has_a_rate_and_no_p() -> None:
    made = examine(
        planted_scores(3, dose=4.0),
        ("tail-enrichment",),
        QUICK.model_copy(update={"baselines": ()}),
    )
    assert all(finding.p is None for finding in made.findings)
    assert {claim.status for claim in made.claims} == {"qualified"}


def test_top_sets_shared_with_a_baseline_collapse() -> None:
    claim = _claim(_all_alike(planted_scores(7)), ("top-k-overlap",), "cohort/reference & target")
    assert claim.status == "collapses"


def test_the_family_is_corrected_as_a_whole() -> None:
    made = examine(planted_scores(2, dose=1.0), ORDER, QUICK)
    for finding in made.findings:
        assert finding.p is not None
        assert finding.p_adjusted is not None
        assert finding.p <= finding.p_adjusted <= min(1.0, 3 * finding.p + 1e-12)


def test_other_orders_are_kept_beside_the_trend() -> None:
    made = examine(planted_scores(2), ("order-trend",), QUICK)
    assert set(made.orders) == set(MODELS)
    assert {one.order for one in made.orders[TARGET]} >= {
        "release",
        "by_content_hash",
        "by_answer_len",
        "by_mink_pp",
    }


def test_an_unknown_detector_or_baseline_is_a_sentence() -> None:
    from heldout.errors import InputError

    with pytest.raises(InputError, match="'mink'"):
        examine(planted_scores(2), ("mink",), QUICK)
    with pytest.raises(InputError, match="scores of 'blip'"):
        examine(planted_scores(2), ORDER, QUICK.model_copy(update={"baselines": ("blip",)}))


def test_a_scanned_run_says_whether_answers_are_likelier_where_the_image_leaked(
    slake: ScoreTables, shared_data: Path
) -> None:
    """The published flags as a run's copies: the published gaps, with intervals and a baseline."""
    published = shared_data.parent / "golden/medvlm/slake_en_overlap_inflation.json"
    records = json.loads(published.read_text())["records"]
    flagged = [r["example_id"].rsplit("::", 1)[1] for r in records if r["flagged"]]
    scanned = replace(slake, leaked={"pmc": frozenset(flagged)})
    made = examine(scanned, ("top-k-overlap",), DetectSettings(baselines=("BLIP-2",)))
    assert set(made.inflation) == {"pmc"}
    overall = {one.model: one for one in made.inflation["pmc"] if one.stratum == "all"}
    assert "CheXagent-8b" not in overall  # failed a self-check: nothing of it is testable
    qwen = overall["Qwen2.5-VL-7B"]
    assert qwen.gap.value == pytest.approx(0.269, abs=5e-4)
    assert (qwen.gap.n, qwen.gap.clusters) == ((247, 814), (19, 77))
    assert 0 < qwen.gap.interval.low < 0.1 and 0.4 < qwen.gap.interval.high < 0.6
    assert qwen.above_baseline is not None and overall["BLIP-2"].above_baseline is None
    assert qwen.above_baseline.value == pytest.approx(0.269 - 0.028, abs=1e-3)
    assert {one.stratum for one in made.inflation["pmc"]} == {"all", "CLOSED", "OPEN"}
    told = made.as_json()["overlap_inflation"]["pmc"][0]
    assert set(told) == {"model", "stratum", "gap", "above_baseline", "standardised"}
    assert not examine(slake, ("top-k-overlap",)).inflation


def test_a_baseline_that_shows_the_effect_too_though_less_caps_the_claim() -> None:
    """Topics in runs help every model that reads on; who makes more of them has not seen more."""
    tables = planted_scores(2, shared=False)
    rng = np.random.default_rng(0)
    rows = []
    for model, gain in ((TARGET, 1.0), (BASELINE, 0.4)):
        for shard in range(40):
            topic = rng.normal(2.0, 0.5)
            rows.append(
                {
                    "model": model,
                    "shard": shard,
                    "permutation": "canonical",
                    "logprob": -100.0 + gain * topic + 0.2 * rng.normal(),
                }
            )
            rows += [
                {
                    "model": model,
                    "shard": shard,
                    "permutation": str(n),
                    "logprob": -100.0 + 0.2 * rng.normal(),
                }
                for n in range(8)
            ]
    joint = pl.DataFrame(rows, schema_overrides={"shard": pl.Int32})
    claim = _claim(replace(tables, order_joint=joint), ("order-joint",), "order/target")
    assert claim.status == "qualified"
    assert f"{BASELINE} shows it" in claim.why


def test_a_model_that_is_only_noisier_than_its_cohort_does_not_survive() -> None:
    tables = planted_scores(3)
    rng = np.random.default_rng(1)
    ease = rng.normal(0, 100, len(tables.items))
    frames = []
    for model in tables.models:
        noise = rng.normal(0, 150 if model == TARGET else 10, len(ease))
        mine = tables.scores.filter(pl.col("model") == model)
        mine = tables.items.select("benchmark_id").join(mine, on="benchmark_id", how="left")
        frames.append(
            mine.with_columns(
                sum_logprob=pl.Series(ease + noise - 1000.0),
                n_tokens=pl.lit(1, pl.Int32),
                logprobs=pl.lit([], pl.List(pl.Float64)),
                mu=pl.lit([], pl.List(pl.Float64)),
                sigma=pl.lit([], pl.List(pl.Float64)),
                tokens=pl.lit([], pl.List(pl.String)),
            ).select(tables.scores.columns)
        )
    noisy = replace(tables, scores=pl.concat(frames))
    claim = _claim(noisy, ("tail-enrichment",), f"cohort/{TARGET}", tail=100.0)
    assert claim.status == "qualified"
    spread = next(one for one in claim.controls if one.name == "spread")
    assert spread.outcome == "missing" and "times as far" in spread.reason


def test_no_tail_anywhere_is_not_testable_rather_than_clean() -> None:
    claim = _claim(planted_scores(2), ("tail-enrichment",), f"cohort/{TARGET}", tail=1e6)
    assert claim.status == "not testable"
    assert claim.rule == "cohort/untested"


def test_scores_are_broken_down_by_what_the_benchmark_names(slake: ScoreTables) -> None:
    made = examine(slake, ("top-k-overlap",), DetectSettings(baselines=("BLIP-2",)))
    assert "CheXagent-8b" not in made.strata  # failed a self-check
    fields = made.strata["Qwen2.5-VL-7B"]
    assert set(fields) == {
        "answer_type",
        "answer_length",
        "base_type",
        "content_type",
        "location",
        "modality",
    }
    closed, opened = fields["answer_type"]
    assert (closed.name, opened.name, closed.n + opened.n) == ("CLOSED", "OPEN", 1061)
    values = {m: slake.scored(m).frame.sort("position") for m in ("Qwen2.5-VL-7B", "BLIP-2")}
    kept = np.asarray(["CLOSED" in text for text in values["BLIP-2"]["metadata"]])
    less = values["Qwen2.5-VL-7B"]["sum_logprob"] - values["BLIP-2"]["sum_logprob"]
    assert closed.value == pytest.approx(float(less.to_numpy()[kept].mean()))
    assert closed.interval is not None and closed.interval.low < closed.value < closed.interval.high
    told = made.as_json()["strata"]["Qwen2.5-VL-7B"]["modality"]
    assert {"name", "n", "clusters", "value", "interval"} == set(told[0])
