"""Agreement against the worked examples of the papers that define it."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.stats.agreement import agreement, cohen_kappa, krippendorff_alpha

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C: 4 observers, 12 units.
FOUR = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]


def units(rows: list[str]) -> list[dict[str, float]]:
    return [
        {f"r{place}": float(ord(said)) for place, said in enumerate(column) if said != "."}
        for column in zip(*rows, strict=True)
    ]


def alone(found: list[dict[str, float]]) -> list[str]:
    return [str(index) for index in range(len(found))]


def table(counts: list[list[int]]) -> list[dict[str, float]]:
    return [
        {"a": float(first), "b": float(second)}
        for first, row in enumerate(counts)
        for second, count in enumerate(row)
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("counts", "published"),
    [
        ([[20, 5], [10, 15]], 0.40),
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
        # Cohen (1960), table 1, as counts of 200 (kappa = .492).
        ([[88, 14, 18], [10, 40, 10], [2, 6, 12]], 0.492),
    ],
)
def test_kappa_of_published_tables(counts: list[list[int]], published: float) -> None:
    found = table(counts)
    assert cohen_kappa(found, alone(found)).value == pytest.approx(published, abs=6e-4)


@pytest.mark.parametrize(
    ("scale", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_of_four_observers_with_gaps(scale: str, published: float) -> None:
    found = units(FOUR)
    alpha = krippendorff_alpha(found, alone(found), scale=scale)  # type: ignore[arg-type]
    assert alpha.value == pytest.approx(published, abs=6e-4)
    assert alpha.raters == 4
    assert alpha.units == 11  # one was rated once, and says nothing of agreement


@pytest.mark.parametrize(
    ("rows", "published"),
    [(["0100000010", "1110010000"], 0.095), (["aabbdcccedda", "babbbccceddd"], 0.692)],
)
def test_alpha_of_two_observers(rows: list[str], published: float) -> None:
    found = units(rows)  # examples A and B
    assert krippendorff_alpha(found, alone(found)).value == pytest.approx(published, abs=6e-4)


def test_the_jackknife_equals_the_published_standard_error_where_units_are_independent() -> None:
    # Fleiss, Cohen and Everitt (1969): the large-sample standard error of kappa.
    counts = np.array([[20, 5], [10, 15]], dtype=float) / 50
    kappa, expected = 0.4, 0.5
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    first = sum(counts[i, i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    second = (1 - kappa) ** 2 * sum(
        counts[i, j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j
    )
    error = np.sqrt((first + second - (kappa - expected * (1 - kappa)) ** 2) / 50) / (1 - expected)
    found = table([[20, 5], [10, 15]])
    interval = cohen_kappa(found, alone(found)).interval
    assert interval is not None
    assert (interval.high - interval.low) / 2 == pytest.approx(2.01 * error, rel=0.04)


def test_repeating_every_unit_in_its_cluster_does_not_narrow_the_interval() -> None:
    once = table([[20, 5], [10, 15]])
    names = alone(once)
    single, thrice = cohen_kappa(once, names), cohen_kappa(once * 3, names * 3)
    assert thrice.value == pytest.approx(single.value)
    assert thrice.interval is not None and single.interval is not None
    assert thrice.interval.low == pytest.approx(single.interval.low)
    assert thrice.units == 150 and thrice.clusters == 50


def test_no_interval_and_no_value_where_nothing_varies() -> None:
    same = [{"a": 1.0, "b": 1.0}] * 20
    found = cohen_kappa(same, alone(same))
    assert (found.value, found.interval, found.observed) == (None, None, 1.0)
    assert krippendorff_alpha(same, alone(same)).value is None
    few = table([[2, 1], [1, 2]])
    assert cohen_kappa(few, ["one picture"] * 6).interval is None
    assert cohen_kappa([{"a": 1.0}, {"b": 1.0}], ["x", "y"]).value is None


def test_two_raters_get_kappa_and_three_or_a_scale_get_alpha() -> None:
    two = table([[20, 5], [10, 15]])
    assert agreement(two, alone(two)).coefficient == "Cohen's kappa"
    assert agreement(two, alone(two), scale="ordinal").coefficient == "Krippendorff's alpha"
    four = units(FOUR)
    assert agreement(four, alone(four)).coefficient == "Krippendorff's alpha"
    with pytest.raises(ValueError, match="two raters"):
        cohen_kappa(four, alone(four))
