"""The leaderboard's numbers from rows whose answer is known."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from heldout.lab.power._answers import dose_trend, requirements
from heldout.lab.power._clean_bases import SHARED, clean_bases
from heldout.lab.power.board import CLEAN_DATA, FiringShare, fired, measured_rates, standings
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS
from heldout.lab.power.run import SCHEMA


def _rows(
    effects: dict[tuple[str, str, int], list[float]], level: float = 1.0, benchmark: str = "scenes"
) -> pl.DataFrame:
    """Effects by role, arm and dose; whatever lies above ``level`` has fired."""
    made = [
        {
            "benchmark": benchmark,
            "detector": "twin-drop",
            "way": "raw",
            "model": f"{arm}{place}",
            "base": f"base{place % 3}",
            "arm": arm,
            "role": role,
            "dose": dose,
            "split": "",
            "references": 0,
            "effect": value,
            "p": 0.01 if value > level else 0.5,
            "direction": "seen" if value > level else "none",
            "reason": "",
        }
        for (role, arm, dose), values in effects.items()
        for place, value in enumerate(values)
    ]
    return pl.DataFrame(made, schema=SCHEMA)


def test_area_and_rates_are_counted_by_hand() -> None:
    rows = _rows(
        {("clean", "clean-a", 0): [0.0, 0.1, 0.2, 2.0], ("contaminated", "d1", 1): [0.15, 3.0]}
    )
    (one,) = standings(rows)
    assert one.auc == pytest.approx((2 + 4) / 8)
    assert (one.false_positives.hits, one.false_positives.n) == (1, 4)
    assert (one.power.hits, one.power.n) == (1, 2)
    assert (one.at_1.hits, one.at_5.hits) == (1, 1)  # four clean models: nobody may exceed


def test_five_per_cent_of_twenty_clean_models_is_one() -> None:
    clean = [float(place) for place in range(20)]
    rows = _rows({("clean", "clean-a", 0): clean, ("contaminated", "d1", 1): [18.5, 30.0]}, 99.0)
    (one,) = standings(rows)
    assert (one.at_1.hits, one.at_5.hits) == (1, 2)


def test_three_separated_models_do_not_make_a_certain_area() -> None:
    rows = _rows({("clean", "clean-a", 0): [0.0] * 12, ("contaminated", "d1", 1): [3.0, 3.1, 3.2]})
    (one,) = standings(rows)
    assert one.auc == 1.0 and one.auc_interval is not None
    assert one.auc_interval[0] == pytest.approx(0.292, abs=0.01)


def test_the_smallest_dose_counts_only_if_higher_ones_fire_too() -> None:
    clean = {("clean", "clean-a", 0): [0.0] * 30}
    rising = _rows(
        clean | {("contaminated", f"d{one}", one): [0.2 * one] * 3 for one in (1, 5, 10)}, 0.5
    )
    assert standings(rising)[0].detectable == "scenes 5"
    broken = _rows(
        clean | {("contaminated", "d1", 1): [2.0] * 3, ("contaminated", "d5", 5): [0.0] * 3}
    )
    assert standings(broken)[0].detectable == "scenes > 5"


def test_a_detector_that_fires_on_clean_models_detects_no_dose() -> None:
    rows = _rows({("clean", "clean-a", 0): [2.0] * 10, ("contaminated", "d1", 1): [2.0] * 3})
    (one,) = standings(rows)
    assert one.off and one.off_in == ("scenes",) and one.detectable == "scenes off"


def test_one_false_positive_of_twenty_is_not_off() -> None:
    assert not FiringShare(1, 20).off
    assert not FiringShare(0, 0).off
    assert FiringShare(5, 20).off


def test_quiet_clean_models_of_one_benchmark_do_not_excuse_the_other() -> None:
    quiet = {("clean", "clean-a", 0): [0.0] * 20, ("contaminated", "d1", 1): [2.0] * 3}
    loud = {("clean", "clean-b", 0): [2.0] * 3 + [0.0] * 5, ("contaminated", "d2", 2): [2.0] * 2}
    (one,) = standings(pl.concat([_rows(quiet), _rows(loud, benchmark="films")]))
    assert not one.false_positives.off  # 3 of 28
    assert one.off and one.off_in == ("films",)
    films = one.places["films"]
    assert (films.false_positives.hits, films.false_positives.n) == (3, 8)
    assert (films.bases.hits, films.bases.n) == (3, 3)
    assert films.area is not None and films.area.value == pytest.approx((5 + 3 / 2) / 8)
    assert (films.area.contaminated, films.area.doses, films.area.clean) == (2, (2,), 8)


def test_nine_splits_of_one_model_are_one_model() -> None:
    many = FiringShare(3, 270, 30)
    assert many.interval.high > 0.1 > FiringShare(3, 270).interval.high
    assert FiringShare(3, 30, 30).interval == FiringShare(3, 30).interval
    assert str(FiringShare(0, 88, 30)) == "0 of 88 (30 models) [.00, .12]"


def test_models_of_one_base_are_hardly_more_than_one() -> None:
    few = FiringShare(0, 30, 30, bases=7)
    assert str(few) == "0 of 30 [.00, .36]"
    assert FiringShare(0, 30, 30, bases=30).interval == FiringShare(0, 30, 30).interval
    # What caps a claim counts every model for itself.
    assert FiringShare(5, 20, 20, bases=4).off == FiringShare(5, 20, 20).off
    assert FiringShare(5, 20, 20, bases=4).interval.low < 0.05
    rows = pl.DataFrame(
        {
            "model": ["a", "b", "c", "d"],
            "base": ["one", "one", "two", "two"],
            "role": [CLEAN] * 4,
            "p": [0.5] * 4,
            "direction": ["none"] * 4,
        }
    )
    assert fired(rows).bases == 2
    assert fired(rows.with_columns(role=pl.lit(CONTAMINATED))).bases is None


def test_clean_bases_of_further_seeds_have_a_section_and_count_in_the_rates(tmp_path: Path) -> None:
    def compared(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(way=pl.lit(OTHER_SEEDS))

    quiet = [0.0] * 3
    own = compared(_rows({(CLEAN, "clean-a", 0): quiet, (CONTAMINATED, "d3", 3): [2.0]}))
    further = compared(
        _rows(
            {
                (CLEAN, "clean-b", 0): [2.0, 0.0, 2.0],
                (CLEAN, "base", 0): quiet,
                (CONTAMINATED, "d10", 10): [2.0, 0.0],
            }
        )
    ).with_columns(
        base="further" + pl.col("base"),
        base_original=pl.when(pl.col("base") == "base2").then(0.5).otherwise(0.8),
    )
    same = further.with_columns(way=pl.lit(SHARED), direction=pl.lit("seen"))
    further = pl.concat([further, same])
    told = list(clean_bases(own, further))
    row = next(line for line in told if line.startswith("| twin-drop |")).split(" | ")
    # scenes, together, one arm of each base, without the base that did not learn, shared references, the grid's own
    shares = ["2 of 6", "2 of 6", "2 of 3", "1 of 4", "6 of 6", "2 of 9"]
    assert [cell.split(" [")[0] for cell in row[1:7]] == shares
    assert row[7] == "1 of 2 |"
    assert "**off**" in row[3] and "**off**" not in row[1] + row[6]
    assert any("furtherbase2 (0.500)" in line for line in told)
    assert any(line.startswith("**off** as above: none") for line in told)

    data = tmp_path / "detector-power.parquet"
    own.write_parquet(data)
    further.write_parquet(tmp_path / CLEAN_DATA)
    (rate,) = measured_rates(data, "by hand", None).rates
    assert (rate.clean.fired, rate.clean.n, rate.clean.bases) == (2, 9, 6)
    assert rate.contaminated.n == 1  # arms of these bases are a check, no part of the grid


def test_areas_over_other_arms_are_listed_apart() -> None:
    effects = {("clean", "clean-a", 0): [0.0] * 9, ("contaminated", "d1", 1): [0.5, -0.5]}
    sure = {("clean", "clean-a", 0): [0.0] * 9, ("contaminated", "half-d10", 10): [0.5, 0.6]}
    loss = _rows(sure).with_columns(detector=pl.lit("loss"))
    board = standings(pl.concat([loss, _rows(effects)]))
    assert [(one.detector, one.group) for one in board] == [
        ("twin-drop", "answers"),
        ("loss", "membership"),
    ]
    assert board[0].auc == 0.5 and board[1].auc == 1.0


def test_practical_means_on_every_benchmark() -> None:
    good = {("clean", "clean-a", 0): [0.0] * 12, ("contaminated", "d1", 1): [3.0] * 12}
    bad = {("clean", "clean-b", 0): [0.0] * 12, ("contaminated", "d2", 2): [0.0] * 12}
    truth = {
        "stage": "finetune",
        "mode": "full",
        "order": "released",
        "part": "full",
        "paraphrased": False,
        "share": 1.0,
        "dilution": 0.5,
    }
    rows = pl.concat([_rows(good), _rows(bad, benchmark="films")])
    rows = rows.with_columns(**{name: pl.lit(value) for name, value in truth.items()})
    (one,) = requirements(rows, standings(rows))
    assert one.practical == "partly" and "scenes, not shown" in one.practical_why
    here = rows.filter(pl.col("benchmark") == "scenes")
    (one,) = requirements(here, standings(here))
    assert one.practical == "yes"


def test_effects_that_rise_with_the_dose_are_consistent() -> None:
    doses = (1, 2, 3, 5, 10)
    effects = {("clean", "clean-a", 0): [0.0, 0.1, 0.2]}
    rising = effects | {("contaminated", f"d{one}", one): [float(one)] * 3 for one in doses}
    falling = effects | {("contaminated", f"d{one}", one): [-float(one)] * 3 for one in doses}
    up, down = dose_trend(_rows(rising)), dose_trend(_rows(falling))
    assert up is not None and up.concordance == 1.0 and up.p < 0.01
    assert down is not None and down.concordance == -1.0
