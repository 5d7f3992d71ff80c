from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from heldout.errors import InputError
from heldout.overlap.nearness.nearest import Null, null_similarities, reference_null
from heldout.overlap.nearness.threshold import ALPHAS, alpha_sweep, negative_control, threshold
from heldout.stats.intervals import upper_quantile


def unit(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def corpus(n: int, seed: int, width: int = 8) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).normal(size=(n, width)))


def brute(rows: NDArray[np.float32], duplicates: float) -> list[float]:
    near = rows.astype(np.float64) @ rows.astype(np.float64).T
    kept = [i for i in range(len(rows)) if not (near[i, :i] >= duplicates).any()]
    others = np.where((near >= duplicates) | np.eye(len(rows), dtype=bool), -np.inf, near)
    return sorted((float(others[i].max()) for i in kept), reverse=True)


def test_null_is_every_picture_against_its_nearest_other_without_copies() -> None:
    rows = corpus(300, 0)
    noisy = unit(rows[:40] + 0.01 * np.random.default_rng(1).normal(size=(40, 8)))
    with_copies = np.concatenate([rows, rows[:50], noisy])
    null = null_similarities(with_copies, encoder="e", duplicates=0.995)
    assert null.similarities == pytest.approx(brute(with_copies, 0.995), abs=1e-6)
    assert null.copies >= 90
    assert null.searched == 390
    assert null.similarities.max() < 0.995


def test_copies_left_in_would_hide_copies() -> None:
    rows = np.concatenate([corpus(400, 2), corpus(400, 2)[:40]])
    apart = threshold(null_similarities(rows, encoder="e", duplicates=0.9999), 0.1)
    left_in = threshold(null_similarities(rows, encoder="e", duplicates=1.0 + 1e-6), 0.1)
    assert left_in.value > 0.9999 > apart.value  # nothing, not even a copy, would exceed the first


def test_groups_name_copies_that_similarity_does_not_show() -> None:
    rows = corpus(60, 3)
    groups = np.full(60, -1)
    groups[[4, 50]] = 7
    together = null_similarities(rows, encoder="e", duplicates=1.0, groups=groups)
    assert len(together) == 59
    assert together.copies == 1
    with pytest.raises(InputError, match="59 labels for 60"):
        null_similarities(rows, encoder="e", duplicates=1.0, groups=groups[:59])


def test_null_does_not_depend_on_shards_blocks_or_precision_of_storage() -> None:
    rows = corpus(500, 4, width=32).astype(np.float16)
    whole = null_similarities(rows, encoder="e", duplicates=0.99, sample=120, seed=5)
    shards = [rows[:7], rows[7:300], rows[300:]]
    cut = null_similarities(
        shards, encoder="e", duplicates=0.99, sample=120, seed=5, block_bytes=1 << 12
    )
    assert len(whole) == 120
    assert np.array_equal(whole.similarities, cut.similarities)
    assert whole.design_effect == cut.design_effect
    other = null_similarities(rows, encoder="e", duplicates=0.99, sample=120, seed=6)
    assert not np.array_equal(whole.similarities, other.similarities)


def test_a_sample_is_searched_in_the_whole_corpus() -> None:
    rows = corpus(2000, 6)
    every = null_similarities(rows, encoder="e", duplicates=1.0, sample=2000)
    some = null_similarities(rows, encoder="e", duplicates=1.0, sample=400)
    assert np.isin(some.similarities.round(6), every.similarities.round(6)).all()
    # Nearest neighbours within the sample alone would be much farther away.
    within = null_similarities(rows[:400], encoder="e", duplicates=1.0, sample=400)
    assert np.median(some.similarities) > np.median(within.similarities) + 0.02


def test_embeddings_that_are_not_unit_or_not_numbers_are_refused() -> None:
    rows = corpus(50, 7)
    rows[31] *= 1.5
    with pytest.raises(InputError, match=r"\brow 31\b.*length 1"):
        null_similarities(rows, encoder="e", duplicates=0.99)
    rows[31] = np.nan
    with pytest.raises(InputError, match="row 31"):
        null_similarities(rows, encoder="e", duplicates=0.99)
    with pytest.raises(InputError, match="nothing is left"):
        null_similarities(np.repeat(corpus(1, 8), 5, axis=0), encoder="e", duplicates=0.99)


def test_interval_of_tau_covers_on_a_corpus_against_itself() -> None:
    # Mutual neighbours enter a null twice; taken for independent, the interval is too short.
    alpha, rounds = 0.05, 150
    nulls = [
        null_similarities(corpus(400, 1000 + r, 6), encoder="e", duplicates=1.0)
        for r in range(rounds)
    ]
    truth = np.quantile(np.concatenate([null.similarities for null in nulls]), 1 - alpha)
    aware = naive = 0
    for null in nulls:
        low, high, *_ = threshold(null, alpha).interval
        aware += low <= truth <= high
        low, high, *_ = upper_quantile(null.similarities, alpha).interval
        naive += low <= truth <= high
    assert aware >= stats.binom.ppf(0.005, rounds, 0.95)
    assert naive < aware
    assert 1.5 < np.mean([null.design_effect for null in nulls]) < 2.2


def test_alpha_that_the_null_cannot_resolve_is_refused_with_the_size_it_needs() -> None:
    null = reference_null(np.random.default_rng(0).random(999), encoder="e", source="clean set")
    with pytest.raises(InputError, match=r"5,000 pictures.*\b999\b.*0\.005"):
        threshold(null, 0.001)
    with pytest.raises(InputError, match="between 0 and 0.5"):
        threshold(null, 0.7)
    grouped = reference_null(
        np.linspace(0, 1, 999), encoder="e", source="s", related=np.arange(999) // 2
    )
    with pytest.raises(InputError, match=r"related pictures, 2\.0 "):
        threshold(grouped, 0.006)


def test_a_threshold_is_for_one_encoder() -> None:
    tau = threshold(uniform_null(), 0.01)
    assert tau.flags([0.5, tau.value, 0.9999], encoder="e").tolist() == [False, False, True]
    with pytest.raises(InputError, match="encoder 'e'.*'f'"):
        tau.flags([0.5], encoder="f")
    with pytest.raises(InputError, match="not a number"):
        tau.flags([float("nan")], encoder="e")
    assert tau.record()["interval"]["method"] == "order statistics"


def uniform_null(n: int = 5000, seed: int = 0) -> Null:
    return reference_null(np.random.default_rng(seed).random(n), encoder="e", source="uniform")


def test_sweep_keeps_its_two_denominators_apart() -> None:
    rng = np.random.default_rng(1)
    images = rng.random(200)
    images[:20] = 0.99999  # ten per cent leaked, and those are asked about most
    shown = np.concatenate([np.repeat(np.arange(20), 9), np.arange(20, 200)])
    sweep = alpha_sweep(
        uniform_null(),
        images,
        encoder="e",
        questions=images[shown],
        clusters=[str(one) for one in shown],
    )
    assert [point.threshold.alpha for point in sweep.points] == list(ALPHAS)
    assert (ALPHAS[0], ALPHAS[-1], len(ALPHAS)) == (0.001, 0.1, 9)
    for point in sweep.points:
        assert point.questions is not None
        flagged = images > point.threshold.value
        assert (point.images.flagged, point.images.n) == (flagged.sum(), 200)
        assert (point.questions.flagged, point.questions.n) == (flagged[shown].sum(), 360)
        assert point.images.interval.method == "clopper-pearson"
        assert point.questions.interval.method == "korn-graubard"
        assert point.images_at_ends[0] <= point.images.flagged <= point.images_at_ends[1]
        # 180 questions about 20 images say less than 180 images would.
        width = point.questions.interval.high - point.questions.interval.low
        assert width > 1.2 * 3.92 * np.sqrt(0.5 * 0.5 / 360)
    rates = [point.images.value for point in sweep.points]
    assert rates == sorted(rates)
    assert sweep.points[0].p < 1e-6


def test_sweep_lists_what_the_null_cannot_resolve_and_wants_clusters() -> None:
    sweep = alpha_sweep(uniform_null(600), np.zeros(10), encoder="e")
    assert [alpha for alpha, _ in sweep.unresolved] == [0.001, 0.001778, 0.003162, 0.005623]
    assert sweep.unresolved[0][1] == 5000
    assert sweep.points[0].questions is None
    with pytest.raises(InputError, match=r"\b5 questions\b.*\b0: "):
        alpha_sweep(uniform_null(), np.zeros(3), encoder="e", questions=np.zeros(5))
    with pytest.raises(InputError, match="calibrated for encoder"):
        alpha_sweep(uniform_null(), np.zeros(3), encoder="another")


def test_a_clean_benchmark_is_flagged_at_alpha_and_no_more() -> None:
    rng = np.random.default_rng(2)
    rounds = 300
    alarms = 0
    for _ in range(rounds):
        null = reference_null(rng.normal(size=1000), encoder="e", source="s")
        (point,) = alpha_sweep(null, rng.normal(size=300), encoder="e", alphas=[0.02]).points
        alarms += point.p <= 0.05
    assert alarms <= stats.binom.ppf(0.995, rounds, 0.05)


def test_negative_controls_have_exact_intervals_and_fire_on_a_closer_domain() -> None:
    tau = threshold(uniform_null(), 0.01)
    paintings = negative_control("paintings", "out of domain", tau, np.zeros(2000), encoder="e")
    assert (paintings.images.flagged, paintings.fires) == (0, False)
    assert paintings.images.interval.high == pytest.approx(1 - 0.025 ** (1 / 2000))
    closer = np.random.default_rng(3).random(300) ** 0.1
    radiographs = negative_control("radiographs", "in domain", tau, closer, encoder="e")
    assert radiographs.fires
    assert radiographs.images.interval.low > 0.01
    with pytest.raises(InputError, match="'none'.*images"):
        negative_control("none", "in domain", tau, [], encoder="e")
