"""Paired comparisons over a suite: values by hand, calibration under no difference, ranks, bounds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from heldout.errors import InputError
from heldout.evaluate.compare import ALIKE, DIFFER, UNCLEAR, compare_models, rank_models
from heldout.evaluate.table import ItemGrades, accuracies, combined
from heldout.stats.paired import mcnemar, mcnemar_power


def grades(
    model: str,
    benchmark: str,
    right: np.ndarray | list[float],
    clusters: list[str] | None = None,
    template: str = "t/1",
) -> ItemGrades:
    values = np.asarray(right, dtype=np.float64)
    ids = tuple(f"{benchmark}-{n}" for n in range(len(values)))
    return ItemGrades(
        model,
        benchmark,
        ids,
        values,
        tuple(clusters or ids),
        {"unparsed": 0, "refused": 0},
        frozenset({template}),
        len(values),
    )


def test_one_benchmark_without_clusters_is_mcnemar() -> None:
    first = [1] * 30 + [1] * 12 + [0] * 3 + [0] * 15
    second = [1] * 30 + [0] * 12 + [1] * 3 + [0] * 15
    (one,) = compare_models([grades("a", "x", first)], [grades("b", "x", second)]).differences
    assert one.table == (30, 12, 3, 15)
    assert one.p == mcnemar(12, 3).exact
    assert one.value == pytest.approx(9 / 60)


@pytest.mark.parametrize("table", [(20, 26, 7, 7), (10, 3, 3, 44), (0, 0, 60, 0)])
def test_the_detectable_difference_is_found_four_times_out_of_five(
    table: tuple[int, int, int, int],
) -> None:
    """The exact power of the exact test there, at the observed discordance or with as much as it takes."""
    first, second = (np.repeat(side, table) for side in ([1, 1, 0, 0], [1, 0, 1, 0]))
    one = compare_models([grades("a", "x", first)], [grades("b", "x", second)]).overall
    assert one.detectable is not None
    share = max((table[1] + table[2]) / 60, one.detectable)
    power = mcnemar_power(60, (share + one.detectable) / 2, (share - one.detectable) / 2)
    assert power == pytest.approx(0.8, abs=0.05)
    assert one.detectable > 6 / 60  # six items on one side: the fewest that give p < 0.05


def test_the_detectable_mean_over_clustered_benchmarks_is_found() -> None:
    rng = np.random.default_rng(5)
    groups = {name: [f"{name}{n // 3}" for n in range(90)] for name in ("x", "y")}

    def models(lift: float) -> list[list[ItemGrades]]:
        made: list[list[ItemGrades]] = [[], []]
        for name, clusters in groups.items():
            shared = np.repeat(rng.normal(0, 0.7, 30), 3)
            for side, raised in enumerate((lift, 0.0)):
                right = shared + rng.normal(0, 1, 90) + raised > 0
                made[side].append(grades("ab"[side], name, right, clusters))
        return made

    wanted = np.median([compare_models(*models(0.0)).overall.detectable for _ in range(10)])
    trials = [compare_models(*models(0.45), seed=n).overall for n in range(150)]
    assert np.mean([one.value for one in trials]) == pytest.approx(wanted, abs=0.02)
    assert np.mean([one.reading == DIFFER for one in trials]) == pytest.approx(0.8, abs=0.1)


def test_without_discordant_items_nothing_is_said_to_be_detectable() -> None:
    same = [1, 0] * 30
    one = compare_models([grades("a", "x", same)], [grades("b", "x", same)]).overall
    assert one.detectable is None
    few = compare_models([grades("a", "x", [1] * 4)], [grades("b", "x", [0] * 4)]).overall
    assert (few.p, few.detectable) == (0.125, None)  # four items never give p < 0.05


def test_the_mean_of_benchmarks_is_unweighted() -> None:
    a = [grades("a", "small", [1, 1, 1, 0]), grades("a", "large", [1, 0] * 50)]
    b = [grades("b", "small", [1, 0, 0, 0]), grades("b", "large", [0, 0] * 50)]
    made = compare_models(a, b)
    assert made.overall.value == pytest.approx((0.5 + 0.5) / 2)
    assert accuracies(a)[-1].value == pytest.approx((0.75 + 0.5) / 2)
    assert accuracies(a)[-1].benchmarks == 2


def test_the_test_of_the_mean_weighs_benchmarks_and_not_items() -> None:
    """Better by 5 points on a thousand items, worse by 5 on forty: as means of two benchmarks, equal."""
    large = ([1] * 60 + [0] * 10 + [1] * 930, [0] * 60 + [1] * 10 + [1] * 930)
    small = ([0] * 4 + [1] * 2 + [1] * 34, [1] * 4 + [0] * 2 + [1] * 34)
    a = [grades("a", "large", large[0]), grades("a", "small", small[0])]
    b = [grades("b", "large", large[1]), grades("b", "small", small[1])]
    made = compare_models(a, b)
    assert made.differences[0].p < 1e-6
    assert made.overall.value == pytest.approx(0.0)
    assert made.overall.p > 0.9


def test_items_of_one_image_count_as_one_observation() -> None:
    """Twenty questions about each of six images: a difference on whole images proves little."""
    images = [f"i{n // 20}" for n in range(120)]
    first = np.repeat([1, 1, 1, 1, 1, 0], 20)
    second = np.repeat([0, 0, 0, 0, 1, 1], 20)
    (alone,) = compare_models([grades("a", "x", first)], [grades("b", "x", second)]).differences
    (shared,) = compare_models(
        [grades("a", "x", first, images)], [grades("b", "x", second, images)]
    ).differences
    assert alone.p < 1e-6
    assert shared.p > 0.05
    assert shared.design_effect == pytest.approx(20)


def test_no_difference_is_found_as_often_as_it_should_be() -> None:
    """Two benchmarks whose items share images, models of one accuracy: 5 % of tests reject, 95 % cover."""
    rng = np.random.default_rng(7)
    rejected = covered = mean_covered = 0
    trials = 300
    for trial in range(trials):
        models: dict[str, list[ItemGrades]] = {"a": [], "b": []}
        for name, images, each in (("x", 60, 3), ("y", 90, 2)):
            clusters = [f"{name}{n // each}" for n in range(images * each)]
            easy = np.repeat(
                rng.normal(0, 0.7, images), each
            )  # what questions about an image share
            for model in models:
                own = np.repeat(rng.normal(0, 0.5, images), each)
                right = easy + own + rng.normal(0, 1, images * each) > 0
                models[model].append(grades(model, name, right, clusters))
        overall = compare_models(models["a"], models["b"], seed=trial).overall
        rejected += overall.p <= 0.05
        covered += overall.interval.low <= 0 <= overall.interval.high
        mean = accuracies(models["a"])[-1]
        mean_covered += mean.interval.low <= 0.5 <= mean.interval.high
    assert 0.02 <= rejected / trials <= 0.085
    assert covered / trials >= 0.92
    assert mean_covered / trials >= 0.92


def test_ranks_of_models_that_cannot_be_told_apart() -> None:
    rng = np.random.default_rng(1)
    base = rng.random(400)
    models = {
        name: [grades(name, "x", (base < level).astype(float))]
        for name, level in (("low", 0.3), ("middle", 0.6), ("also middle", 0.605))
    }
    ranks, pairs, remarks = rank_models(models)
    assert (ranks["low"].low, ranks["low"].high) == (3, 3)
    assert (ranks["middle"].low, ranks["middle"].high) == (1, 2)
    assert (len(pairs), remarks) == (3, [])


def test_models_with_other_benchmarks_are_not_ranked() -> None:
    x, y = [1, 0, 1, 1], [0, 0, 1, 0]
    models = {
        "a": [grades("a", "x", x), grades("a", "y", y)],
        "b": [grades("b", "x", y), grades("b", "y", y)],
        "c": [grades("c", "x", x)],
        "d": [grades("d", "z", x)],
    }
    ranks, pairs, (remark,) = rank_models(models)
    assert (list(ranks), list(pairs)) == (["a", "b"], [("a", "b"), ("a", "c"), ("b", "c")])
    assert "c (x); d (z)" in remark
    ranks, pairs, remarks = rank_models({name: models[name] for name in ("a", "c")})
    assert (ranks, len(pairs), len(remarks)) == ({}, 1, 1)


def test_pairs_of_equal_models_are_corrected_over_all_pairs() -> None:
    """Twelve models of one skill: some of 66 pairs have p below 0.05, and none of them differ."""
    rng = np.random.default_rng(0)
    models = {
        f"m{n}": [grades(f"m{n}", part, rng.random(60) < 0.6) for part in ("x", "y")]
        for n in range(12)
    }
    ranks, pairs, _ = rank_models(models)
    found = [one.overall for one in pairs.values()]
    assert min(one.p for one in found) < 0.05
    assert {(one.reading, one.family) for one in found} == {(ALIKE, 66)}
    assert {(rank.low, rank.high) for rank in ranks.values()} == {(1, 12)}
    assert {one.family for pair in pairs.values() for one in pair.differences[:-1]} == {132}


def test_a_difference_needs_the_test_and_the_interval() -> None:
    one = compare_models([grades("a", "x", [1] * 9)], [grades("b", "x", [0] * 9)]).overall
    assert (one.reading, one.p_adjusted) == (DIFFER, one.p)
    around = one.interval._replace(low=-0.003)
    assert replace(one, interval=around).reading == UNCLEAR
    assert replace(one, interval=around, p_adjusted=0.06).reading == ALIKE


def test_different_prompts_and_items_are_said() -> None:
    a = grades("a", "x", [1, 0, 1, 1])
    b = grades("b", "x", [1, 0, 1], template="other/1")
    made = compare_models([a], [b])
    assert made.differences[0].n == 3
    assert "(t/1 and other/1)" in made.remarks[0]
    assert made.remarks[1].startswith("x: 1 item ")
    with pytest.raises(InputError, match=r"a and b\b.*in common"):
        compare_models([a], [grades("b", "y", [1])])


def test_errors_of_independent_parts_add_up() -> None:
    error, reach = combined([0.3, 0.4], [10**6, 10**6])
    assert error == pytest.approx(0.5)
    assert reach == pytest.approx(1.959964 * 0.5, rel=1e-4)
    assert combined([0.0], [5]) == (0.0, 0.0)


def test_all_right_or_all_wrong_is_not_certain() -> None:
    made = accuracies([grades("a", "x", [0] * 40), grades("a", "y", [0] * 60)])
    x, y, mean = (one.interval for one in made)
    assert (mean.low, mean.high) == pytest.approx((0, (x.high**2 + y.high**2) ** 0.5 / 2))
    *_, mixed = accuracies([grades("a", "x", [1] * 40), grades("a", "y", [1, 0] * 30)])
    assert mixed.interval.high < 1 - 0.25 + 0.07
    assert mixed.interval.low < mixed.value - 0.07


def test_symmetry() -> None:
    rng = np.random.default_rng(3)
    a, b = ([grades(m, n, rng.integers(0, 2, 40)) for n in ("x", "y")] for m in ("a", "b"))
    there, back = compare_models(a, b).overall, compare_models(b, a).overall
    assert there.value == pytest.approx(-back.value)
    assert there.p == pytest.approx(back.p)
    assert list(itertools.chain(there.interval[:2])) == pytest.approx(
        [-back.interval[1], -back.interval[0]]
    )
