"""The tail by stratum: by hand, against the published table, and without false alarms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from heldout.benchmark import items_table, read_benchmark
from heldout.detect import DetectSettings
from heldout.detect.tables import MOST_STRATA, covariates
from heldout.detect.tail_enrichment import tail_strata
from heldout.lab.power.planted_scores import BASELINE, PLANTED, TARGET, planted_scores
from heldout.verdict import examine

QUICK = DetectSettings(permutations=199)


def test_rates_expectations_and_baselines_by_hand() -> None:
    tail = np.asarray([1, 1, 0, 0, 0, 0, 1, 0], dtype=bool)
    clusters = list("aabbccdd")
    fields = {"kind": list("xyxyxyxy")}
    baseline = np.asarray([[1, 0, 1, 0, 0, 0, 0, 0]], dtype=bool)
    x, y = tail_strata(tail, clusters, fields, baselines=baseline, settings=QUICK)
    assert (x.field, x.stratum, x.n, x.clusters, x.in_tail, x.rate) == ("kind", "x", 4, 4, 2, 0.5)
    assert (y.in_tail, y.rate) == (1, 0.25)
    assert x.expected == y.expected == pytest.approx(3 / 8)  # all clusters have one size
    assert (x.baselines, y.baselines) == (0.5, 0.0)
    assert x.interval.low < x.rate < x.interval.high
    assert x.p == y.p  # two strata of one field: what one has more, the other has less
    assert x.p_adjusted == pytest.approx(min(1.0, 2 * (x.p or 0.0)))


def test_every_stratum_of_every_field_is_in_the_finding() -> None:
    tables = planted_scores(3, dose=3.0)
    made = examine(tables, ("tail-enrichment",), PLANTED.model_copy(update={"permutations": 199}))
    found = next(one for one in made.findings if one.cell.model == TARGET)
    rows = found.details["by_stratum"]
    fields, _ = covariates(tables.items)
    assert {(row["field"], row["stratum"]) for row in rows} == {
        (field, label) for field, labels in fields.items() for label in labels
    }
    for field in fields:
        mine = [row for row in rows if row["field"] == field]
        assert sum(row["n"] for row in mine) == found.n
        total = sum(row["in_tail"] for row in mine)
        assert total == round(found.effect.value * found.n)
        assert sum(row["expected"] * row["n"] for row in mine) == pytest.approx(total)
    seen = next(row for row in rows if row["stratum"] == "public")
    assert seen["p_adjusted"] <= 0.05  # only public items were planted
    assert seen["rate"] > seen["expected"]
    own = next(one for one in made.findings if one.cell.model == BASELINE)
    assert all(row["baselines"] is None for row in own.details["by_stratum"])


def test_a_field_with_too_many_values_is_named_and_one_value_is_no_field() -> None:
    items = planted_scores(3).items
    metadata = [
        json.dumps({"id": f"x{place}", "split": "test", "bits": [1], "place": place % 3})
        for place in range(len(items))
    ]
    fields, fine = covariates(items.with_columns(metadata=pl.Series(metadata)))
    assert set(fields) == {"answer_type", "answer_length", "place"}
    assert fine == {"id": len(items)}
    assert len(items) > MOST_STRATA


def test_clean_tails_raise_no_alarm_over_all_their_strata() -> None:
    """The family of one model's strata errs in no more than one table of twenty."""
    rounds, alarms = 40, 0
    for seed in range(rounds):
        rng = np.random.default_rng([seed, 9])
        codes = np.repeat(np.arange(40), rng.integers(1, 8, 40))
        n = len(codes)
        tail = rng.normal(size=40)[codes] + 0.5 * rng.normal(size=n) > 1.0
        fields = {
            "per image": [str(one) for one in rng.integers(0, 3, 40)[codes]],
            "per item": [str(one) for one in rng.integers(0, 4, n)],
        }
        rows = tail_strata(tail, [str(one) for one in codes], fields, settings=QUICK)
        alarms += any(row.p_adjusted is not None and row.p_adjusted <= 0.05 for row in rows)
    assert alarms <= stats.binom.ppf(0.995, rounds, 0.05)


def test_the_published_table_of_slake_comes_out(shared_data: Path) -> None:
    """Its per-item Δ was not published: items are drawn to its rates; the strata are the benchmark's."""
    golden = shared_data.parent / "golden/medvlm"
    published = json.loads((golden / "metadata_breakdown.json").read_text())["slake_en"]["keys"]
    items = pl.from_arrow(items_table(read_benchmark(f"{shared_data}/slake#split=test,lang=en")))
    assert isinstance(items, pl.DataFrame)
    fields, _ = covariates(items)
    model, counts = "StanfordAIMI__CheXagent-8b", {}
    for field, strata in published.items():
        labels = np.asarray(fields[field])
        tail = np.zeros(len(labels), dtype=bool)
        for stratum, told in strata.items():
            members = np.flatnonzero(labels == stratum)
            tail[members[: round(told["P_delta_gt_100"][model] * told["n"])]] = True
        rows = tail_strata(tail, items["cluster"].to_list(), {field: fields[field]}, settings=QUICK)
        mine = {row.stratum: row for row in rows}
        for stratum, told in strata.items():
            assert mine[stratum].n == told["n"]
            assert mine[stratum].rate == pytest.approx(told["P_delta_gt_100"][model])
        counts[field] = int(tail.sum())
        if field == "answer_type":  # Table 6: all of the tail is in the closed questions
            assert (
                mine["CLOSED"].p_adjusted or 1.0
            ) <= 0.01  # the floor of 199 permutations, twice
            assert mine["OPEN"].in_tail == 0 < mine["OPEN"].interval.high
            assert mine["OPEN"].expected == pytest.approx(counts[field] / len(items), abs=0.02)
    assert counts["answer_type"] == counts["modality"] == round(0.2413 * 1061)
