"""Calibration as a whole: measured once, written to the run, recomputed from it, true to its α."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from heldout.detect import Finding, adjust, image_nearness
from heldout.overlap.images.encoder import open_encoder
from heldout.overlap.nearness.calibration import Calibration, calibration_record, calibrations
from heldout.overlap.nearness.measure import COPY, CalibrationPlan, measure, write_measured
from heldout.overlap.nearness.nearest import (
    ITSELF,
    TallMatrix,
    mean_group,
    nearest_in,
    null_similarities,
    related_pictures,
)
from heldout.store import Run, dropped_table, make_table

IDENTITY = "e-1 | test"


@dataclass
class Pictures:
    """Both sides' contract: vectors with names."""

    matrix: NDArray[np.float32]
    prefix: str
    identity: str = IDENTITY
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not len(self.groups):
            self.groups = np.arange(len(self.matrix))
        self.ids = self.pictures = [f"{self.prefix}{index}" for index in range(len(self.matrix))]

    @property
    def rows(self) -> Any:
        return self.matrix.astype(np.float16)


class Sharded(Pictures):
    @property
    def rows(self) -> Any:
        return np.array_split(self.matrix.astype(np.float16), 3)


def unit(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def drawn(n: int, rng: np.random.Generator, width: int = 8) -> NDArray[np.float32]:
    return unit(rng.normal(size=(n, width)))


def items_of(pictures: list[str], questions: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "benchmark_id": f"{one}-{q}",
            "position": 0,
            "cluster": one,
            "question": "?",
            "options": [],
            "answer": "",
            "image_names": [one],
            "image_digests": [one],
            "metadata": "{}",
        }
        for one in pictures
        for q in range(questions)
    ]


def calibrated(
    path: Path,
    corpus: NDArray[np.float32],
    benchmark: NDArray[np.float32],
    *,
    alpha: float = 0.05,
    groups: NDArray[np.int64] | None = None,
) -> tuple[Calibration, list[Finding], Run]:
    run = Run.create(path)
    run.write_table("dropped", dropped_table([]))
    labels = np.zeros(0, np.int64) if groups is None else groups
    found = measure(
        run,
        "web",
        "fingerprint",
        Sharded(corpus, "c", groups=labels),
        Pictures(benchmark, "b"),
        CalibrationPlan(alpha=alpha),
        open_encoder("pixels"),
        quiet=True,
    )
    write_measured(run, [found])
    one = recomputed(run, Pictures(benchmark, "b").ids)
    items = frame(items_of(one.benchmark.pictures, 2))
    matches = pl.from_arrow(make_table("matches", []))
    assert isinstance(matches, pl.DataFrame)
    return one, adjust(image_nearness(items, matches, one, benchmark="bench")), run


def simulated(corpus: NDArray[np.float32], benchmark: NDArray[np.float32], alpha: float) -> Finding:
    """The same without a disk, for many rounds: the finding over all images."""
    null = null_similarities(corpus, encoder=IDENTITY, duplicates=COPY)
    found = nearest_in(TallMatrix.of(corpus, 1 << 24), benchmark)
    assert null.links is not None and null.related is not None
    (own, other), each = null.links.T, np.arange(len(benchmark))
    sets = [("null", own, other, null.similarities, null.related)]
    sets.append(("benchmark", each, found.neighbour, found.similarity, each))
    nearest = pl.concat(
        pl.DataFrame(
            {"picture": pictures, "neighbour": neighbours, "similarity": values, "related": related}
        ).select(
            pl.lit("web").alias("corpus"),
            pl.lit(IDENTITY).alias("encoder"),
            pl.lit(role).alias("role"),
            pl.format("{}{}", pl.lit("c" if role == "null" else "b"), "picture").alias("picture"),
            pl.format("c{}", "neighbour").alias("neighbour"),
            "similarity",
            pl.col("related").cast(pl.String),
        )
        for role, pictures, neighbours, values, related in sets
    )
    facts = {
        "corpus": "web",
        "encoder": IDENTITY,
        "alpha": alpha,
        "corpus_pictures": len(corpus),
        "null": {"source": ITSELF, "duplicates": COPY, "seed": 0},
        "controls": [],
        "problem": "",
    }
    items = frame(items_of([f"b{n}" for n in range(len(benchmark))]))
    (one,) = calibrations(items, nearest, {"web": facts})
    matches = pl.from_arrow(make_table("matches", []))
    assert isinstance(matches, pl.DataFrame)
    return image_nearness(items, matches, one, benchmark="bench")[0]


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    items = pl.from_arrow(make_table("items", rows))
    assert isinstance(items, pl.DataFrame)
    return items


def recomputed(run: Run, pictures: list[str]) -> Calibration:
    nearest = pl.from_arrow(run.read_table("nearest"))
    assert isinstance(nearest, pl.DataFrame)
    facts = run.manifest()["calibration"]
    (one,) = calibrations(frame(items_of(pictures, 2)), nearest, facts)
    return one


def test_nearest_rows_equal_brute_force_whatever_the_shards() -> None:
    rng = np.random.default_rng(0)
    corpus, queries = drawn(300, rng), drawn(40, rng)
    stored, asked = (unit(one.astype(np.float16).astype(np.float64)) for one in (corpus, queries))
    brute = asked.astype(np.float64) @ stored.astype(np.float64).T
    whole = nearest_in(TallMatrix.of(corpus.astype(np.float16), 1 << 20), queries)
    cut = nearest_in(TallMatrix.of(np.array_split(corpus.astype(np.float16), 7), 1 << 9), queries)
    assert np.array_equal(whole.neighbour, brute.argmax(axis=1))
    assert whole.similarity == pytest.approx(brute.max(axis=1), abs=1e-6)
    assert np.array_equal(whole.similarity, cut.similarity)
    assert np.array_equal(whole.neighbour, cut.neighbour)


def test_a_blank_picture_is_near_to_nobody_on_either_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    corpus, queries = drawn(200, rng), drawn(10, rng)
    corpus[7], queries[3] = 0.0, 0.0
    one, _, _ = calibrated(tmp_path / "run", corpus, queries)
    assert "b3" not in one.benchmark.pictures
    assert len(one.benchmark) == 9
    assert one.null is not None and len(one.null) == 199
    assert "c7" not in one.benchmark.neighbours


def test_each_others_nearest_count_once_in_a_corpus_against_itself() -> None:
    rows = drawn(4, np.random.default_rng(9), 64)
    values = np.array([0.5, 0.5, 0.4, 0.3])
    neighbour = np.array([11, 10, 10, 99])  # the first two are each other's; the third is not
    own = np.array([10, 11, 12, 13])
    assert related_pictures(rows, neighbour, values, own=own).tolist() == [0, 0, 2, 3]


def test_slices_of_one_study_are_related_and_strangers_at_one_hub_are_not() -> None:
    rng = np.random.default_rng(8)
    hub = drawn(1, rng, 64)
    strangers = unit(hub + 0.1 * rng.normal(size=(5, 64)))  # about the hub, each on its own side
    slices = unit(strangers[:1] + 0.005 * rng.normal(size=(4, 64)))
    rows = np.concatenate([strangers, slices, drawn(1, rng, 64)])
    corpus = np.concatenate([hub, drawn(50, rng, 64)])
    found = nearest_in(TallMatrix.of(corpus, 1 << 20), rows)
    assert set(found.neighbour[:9]) == {0}
    related = related_pictures(rows, found.neighbour, found.similarity)
    assert related.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0, 9]
    assert mean_group([str(one) for one in related]) == pytest.approx((25 + 5) / 10)


def test_planted_copies_are_flagged_and_everything_is_recomputed_from_the_run(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(2)
    corpus = drawn(1500, rng)
    benchmark = drawn(100, rng)
    benchmark[:30] = unit(corpus[:30] + 0.01 * rng.normal(size=(30, 8)))
    one, (images, rest, questions), run = calibrated(tmp_path / "run", corpus, benchmark)
    assert {f"b{n}" for n in range(30)} <= one.flagged()
    assert images.direction == "seen"
    assert images.p is not None and images.p < 1e-9
    assert images.p_adjusted is not None and images.p_adjusted >= images.p
    assert (images.n, rest.n, questions.n, questions.clusters) == (100, 100, 200, 100)
    assert questions.statistic.value == 2 * images.statistic.value
    assert questions.p is None  # α speaks of pictures
    assert images.details["flagged"]["not looked at"] == images.statistic.value
    again = recomputed(Run.open(run.path), [f"b{n}" for n in range(100)])
    assert calibration_record([again]) == calibration_record([one])
    assert len(one.sweep.points) >= 4
    assert [point.threshold.alpha for point in one.sweep.points] == sorted(
        point.threshold.alpha for point in one.sweep.points
    )


def test_copies_inside_the_corpus_do_not_hide_copies_of_the_benchmark(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pictures = drawn(600, rng)
    corpus = np.concatenate([pictures, pictures[:200]])
    groups = np.concatenate([np.arange(600), np.arange(200)])
    benchmark = np.concatenate([pictures[:20], drawn(60, rng)])
    one, (images, *_), _ = calibrated(tmp_path / "run", corpus, benchmark, groups=groups)
    assert one.null is not None and one.null.copies > 0 and len(one.null) == 600
    assert {f"b{n}" for n in range(20)} <= one.flagged()
    assert images.direction == "seen"


def test_a_small_null_is_said_with_the_alpha_it_resolves(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    one, findings, _ = calibrated(tmp_path / "a", drawn(300, rng), drawn(20, rng), alpha=0.001)
    assert one.tau is not None and one.tau.alpha > 0.001
    assert findings
    assert one.resolves is not None and one.tau.alpha >= one.resolves
    assert "α = 0.001 would need" in one.notes[0]
    tiny, none, _ = calibrated(tmp_path / "b", drawn(12, rng), drawn(5, rng))
    assert tiny.tau is None and not none
    assert "resolves no α below" in tiny.problem
    alone, none, _ = calibrated(tmp_path / "c", drawn(1, rng), drawn(5, rng))
    assert alone.null is None and not none
    assert "two corpus items" in alone.problem


def test_a_second_call_measures_nothing_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    corpus, benchmark = drawn(300, rng), drawn(20, rng)
    _, _, run = calibrated(tmp_path / "run", corpus, benchmark)
    before = {p: p.stat().st_size for p in (run.path / "stages/calibration").glob("*/*")}
    assert before
    calibrated(tmp_path / "run", corpus, benchmark)
    assert {p: p.stat().st_size for p in (run.path / "stages/calibration").glob("*/*")} == before


def test_a_clean_benchmark_is_flagged_at_alpha_and_its_p_values_hold() -> None:
    """Null calibration of the whole method: pictures of one population on both sides."""
    rounds, alpha, alarms, rates = 100, 0.05, 0, []
    for number in range(rounds):
        rng = np.random.default_rng([6, number])
        images = simulated(drawn(400, rng), drawn(60, rng), alpha)
        assert images.p is not None
        alarms += images.p < 0.05
        rates.append(images.effect.value)
    # The pictures of one round share a threshold, so that the spread is taken between rounds.
    error = float(np.std(rates, ddof=1) / np.sqrt(rounds))
    assert abs(np.mean(rates) - alpha) < 3.3 * error
    assert alarms <= stats.binom.ppf(0.995, rounds, 0.05)


@pytest.mark.parametrize(("share", "least"), [(0.1, 0.8), (0.2, 0.95)])
def test_power_rises_with_the_planted_share(share: float, least: float) -> None:
    """Without any planted: the test before."""
    rounds, found = 10, 0
    for number in range(rounds):
        rng = np.random.default_rng([7, number])
        corpus, benchmark = drawn(600, rng), drawn(100, rng)
        count = round(share * 100)
        benchmark[:count] = unit(corpus[:count] + 0.02 * rng.normal(size=(count, 8)))
        found += simulated(corpus, benchmark, 0.02).direction == "seen"
    assert found / rounds >= least
