"""Seed 000's published image-neighbour tables, from what was published of their inputs.

Checked: thresholds within one rank of theirs, and at their thresholds every flag count whose distances
were released (α ≤ .01, from the adjudication list), per image and per question. Not checkable: counts
at larger α, PathVQA's and VQA-RAD's, because those distances were not released. PathVQA's "images" are
its 6,719 questions.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heldout.overlap.nearness.matrices import hub_report
from heldout.overlap.nearness.nearest import Null, reference_null
from heldout.overlap.nearness.threshold import alpha_sweep, threshold
from heldout.stats import binomial_interval

BACKBONES = [("image_nn", "dist_b16"), ("image_nn_so400m", "dist_so400m")]


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    folder = shared_data.parent / "golden" / "medvlm"
    if not folder.is_dir():
        pytest.skip(f"published tables are not at {folder}")
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def null_of(golden: Path, name: str) -> Null:
    """A null of 5,000 through all quantiles they published; between them it is a straight line."""
    quantiles = read(golden / name / "summary.json")["null_quantiles"]
    known = {
        row["alpha"]: row["threshold"] for row in read(golden / name / "alpha_sweep.json")["sweep"]
    }
    known |= {0.0: quantiles["min"], 0.25: quantiles["q25"], 0.5: quantiles["q50"]}
    known |= {1.0: quantiles["max"]}
    shares = sorted(known)
    distances = np.interp(
        np.linspace(0, 1, quantiles["n_null"]), shares, [known[share] for share in shares]
    )
    return reference_null(1.0 - distances, encoder=name, source="PMC-OA against itself")


def questions_per_image(shared_data: Path) -> Counter[str]:
    rows = read(shared_data / "slake" / "official_test.json")
    return Counter(row["img_name"] for row in rows if row["q_lang"] == "en")


def slake(shared_data: Path, golden: Path, distance: str) -> dict[str, float]:
    """Similarity per image: what was released where it was, elsewhere farther than any flagged."""
    known = {
        row["slake_image"].removeprefix("imgs/"): 1.0 - row[distance]
        for row in read(golden / "adjudication" / "manifest.json")
        if row[distance] is not None
    }
    return {name: known.get(name, 0.9) for name in questions_per_image(shared_data)}


@pytest.mark.parametrize(("name", "distance"), BACKBONES)
def test_thresholds_are_theirs_within_one_rank(golden: Path, name: str, distance: str) -> None:
    null = null_of(golden, name)
    for row in read(golden / name / "alpha_sweep.json")["sweep"]:
        interpolated = np.quantile(null.similarities, 1.0 - row["alpha"])
        assert interpolated == pytest.approx(1.0 - row["threshold"], abs=5e-6)
        tau = threshold(null, row["alpha"])
        # They interpolate between two ranks, we take the stricter one.
        step = abs(tau.value - null.similarities[tau.rank])
        assert abs(tau.value - (1.0 - row["threshold"])) <= step + 1e-12
        assert tau.interval.low <= 1.0 - row["threshold"] <= tau.interval.high


@pytest.mark.parametrize(("name", "distance"), BACKBONES)
def test_flag_counts_are_theirs_wherever_distances_were_released(
    shared_data: Path, golden: Path, name: str, distance: str
) -> None:
    images = slake(shared_data, golden, distance)
    counts = questions_per_image(shared_data)
    shown = [name for name in images for _ in range(counts[name])]
    published = read(golden / name / "alpha_sweep.json")["sweep"][:3]
    sweep = alpha_sweep(
        null_of(golden, name),
        list(images.values()),
        encoder=name,
        questions=[images[one] for one in shown],
        clusters=shown,
        alphas=[row["alpha"] for row in published],
    )
    per_question = np.array([images[one] for one in shown])
    for point, row in zip(sweep.points, published, strict=True):
        theirs = replace(point.threshold, value=1.0 - row["threshold"])
        flagged = int(theirs.flags(list(images.values()), encoder=name).sum())
        assert flagged == row["slake_en__img_flag"]
        assert theirs.flags(per_question, encoder=name).sum() == row["slake_en__qa_flag"]
        assert 100 * flagged / len(images) == pytest.approx(row["slake_en__img_pct"], abs=0.005)
        # Ours is one rank stricter: it may lose an image that lies inside that rank, no more.
        assert point.questions is not None
        assert flagged - 1 <= point.images.flagged <= flagged
        assert point.images_at_ends[0] <= flagged <= point.images_at_ends[1]
        assert (point.images.n, point.questions.n) == (96, 1061)
    if name == "image_nn":
        # The abstract's 19.8 % is of images; of questions it is 23.3 %. One image, at .01796, lies
        # within a rank of the threshold.
        last = sweep.points[-1]
        assert last.questions is not None
        assert (last.images.flagged, last.questions.flagged) == (
            18,
            247 - counts["xmlab135/source.jpg"],
        )
        assert binomial_interval(19, 96)[:2] == pytest.approx((0.1236, 0.2917), abs=1e-4)
        assert last.p < 1e-10


def test_flagged_questions_are_whole_images(shared_data: Path, golden: Path) -> None:
    rows = read(shared_data / "slake" / "official_test.json")
    image = {str(row["qid"]): row["img_name"] for row in rows}
    flagged = {
        image[record["example_id"].split("::")[-1]]
        for record in read(golden / "slake_en_overlap_inflation.json")["records"]
        if record["flagged"]
    }
    tau = threshold(null_of(golden, "image_nn"), 0.01)
    tau = replace(tau, value=1.0 - read(golden / "image_nn" / "summary.json")["threshold"])
    near = slake(shared_data, golden, "dist_b16")
    ours = {one for one, value in near.items() if tau.flags([value], encoder="image_nn")[0]}
    assert ours == flagged


@pytest.mark.parametrize(("name", "distance"), BACKBONES)
def test_their_null_holds_copies(golden: Path, name: str, distance: str) -> None:
    # Distance 0 inside the null: it was not de-duplicated, which makes every τ too strict.
    assert null_of(golden, name).similarities[0] >= 1.0


def test_their_in_domain_control_fires_once_it_has_an_interval() -> None:
    # 22 of 451 *questions* on 203 images under B-16: even if all were independent, α = .01 is out.
    assert binomial_interval(22, 451).low > 0.01
    low, high, *_ = binomial_interval(4, 451)
    assert low < 0.01 < high
    assert binomial_interval(0, 2000).high < 0.002


def test_their_hubs_are_found(golden: Path) -> None:
    rows = [r for r in read(golden / "adjudication" / "manifest.json") if r["dist_b16"] is not None]
    report = hub_report(
        [row["slake_image"] for row in rows],
        [row["pmc_figure"] for row in rows],
        [1.0 - row["dist_b16"] for row in rows],
        corpus_items=1_850_000,
    )
    articles = {hub.corpus_id.split("_")[0]: hub.count for hub in report.hubs}
    assert articles == {"PMC2569031": 2, "PMC9062550": 2}
    assert all(hub.p_adjusted < 0.001 for hub in report.hubs)
