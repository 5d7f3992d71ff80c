from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

from heldout.errors import InputError
from heldout.overlap.nearness.matrices import MatrixRun, hub_report, leakage_matrix
from heldout.overlap.nearness.threshold import (
    DEGREES,
    degree,
    degrees_of,
)
from heldout.store import make_table

CLIP = "transformers:openai/clip-vit-base-patch32"


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [(1.0, "hard"), (0.98, "hard"), (0.9799, "soft"), (0.95, "soft"), (0.9499, "none")],
)
def test_degrees_of_clip_are_the_published_ones(similarity: float, expected: str) -> None:
    assert degree(similarity, f"{CLIP} bicubic-224").degree == expected
    assert degree(similarity, "open_clip:ViT-B-32/openai").degree == expected


@pytest.mark.parametrize(
    "encoder",
    [
        "pixels",  # its measured identity is pixels-3: another version has to be measured anew
        "transformers:facebook/dinov2-base",
        "open_clip:ViT-B-16-SigLIP/webli",
        f"{CLIP}0",
        f"my-{CLIP}",
    ],
)
def test_degrees_are_never_borrowed_from_another_encoder(encoder: str) -> None:
    graded = degree(1.0, encoder)
    assert graded.degree == "none"
    assert encoder in graded.reason
    assert "calibrate" in graded.reason
    assert degrees_of(encoder) is None


def test_every_line_of_the_table_says_what_it_stands_on() -> None:
    for prefix, found in DEGREES.items():
        assert found.encoder == prefix
        assert 1.0 >= found.hard > found.soft > 0.0
        assert "measured" in found.basis


def test_a_similarity_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="not a number"):
        degree(float("nan"), CLIP)


def test_hubs_are_counted_against_a_random_assignment() -> None:
    images = [f"image {index}" for index in range(10)]
    neighbours = ["a"] * 4 + ["b", "b"] + ["c", "d", "e", "f"]
    similarity = np.linspace(0.9, 0.99, 10)
    report = hub_report(images, neighbours, similarity, corpus_items=1000)
    assert [(hub.corpus_id, hub.count) for hub in report.hubs] == [("a", 4), ("b", 2)]
    first = report.hubs[0]
    assert first.images == ("image 3", "image 2", "image 1", "image 0")
    assert first.expected == pytest.approx(0.01)
    assert first.p == pytest.approx(stats.binom.sf(3, 10, 1 / 1000), rel=1e-9)
    assert first.p_adjusted == pytest.approx(1000 * first.p)
    assert first.similarity == pytest.approx(similarity[:4].mean())
    assert (report.images, report.attracting, report.share) == (10, 6, 0.6)
    assert report.attracting_expected == pytest.approx(1000 * (1 - 0.999**10))
    with pytest.raises(InputError, match="hubs need one"):
        hub_report(images, neighbours[1:], similarity, corpus_items=1000)
    with pytest.raises(InputError, match="two nearest neighbours"):
        hub_report(["x", "x"], ["a", "b"], [0.9, 0.9], corpus_items=10)


def test_hub_p_values_hold_under_random_assignment() -> None:
    rng = np.random.default_rng(0)
    rounds, alarms = 400, 0
    images = [str(index) for index in range(100)]
    for _ in range(rounds):
        chosen = [str(one) for one in rng.integers(0, 500, 100)]
        report = hub_report(images, chosen, np.ones(100), corpus_items=500)
        alarms += any(hub.p_adjusted <= 0.05 for hub in report.hubs)
    assert alarms <= stats.binom.ppf(0.995, rounds, 0.05)
    crowded = hub_report(images, ["hub"] * 8 + chosen[8:], np.ones(100), corpus_items=500)
    assert crowded.hubs[0].p_adjusted < 1e-4


def item(identifier: str, digests: list[str], cluster: str) -> dict[str, object]:
    return {
        "benchmark_id": identifier,
        "position": 0,
        "cluster": cluster,
        "question": "?",
        "options": [],
        "answer": "yes",
        "image_names": digests,
        "image_digests": digests,
        "metadata": "{}",
    }


def match(
    identifier: str,
    corpus: str,
    degree: str,
    image: int = 0,
    method: str = "e",
    relation: str = "",
) -> dict[str, object]:
    return {
        "benchmark_id": identifier,
        "image_index": image,
        "corpus": corpus,
        "corpus_id": "x",
        "method": method,
        "similarity": 0.99,
        "degree": degree,
        "relation": relation,
        "transform": "",
        "modality": "image only",
        "label_relation": "unknown",
        "evidence": json.dumps({}),
    }


def table(name: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    found = pl.from_arrow(make_table(name, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def test_matrix_counts_pictures_and_questions_each_over_their_own_number() -> None:
    items = table(
        "items",
        [
            item("1", ["p"], "p"),
            item("2", ["p"], "p"),
            item("3", ["q"], "q"),
            item("4", ["r", "s"], "r"),
            item("5", [""], "5"),  # nothing to compare: in no denominator
        ],
    )
    matches = table(
        "matches",
        [
            match("1", "web", "hard", relation="same image"),
            match("2", "web", "hard", relation="same image"),
            match("1", "web", "soft", relation="transformed copy"),
            match("3", "web", "soft"),
            match("4", "web", "none"),
            match("4", "web", "soft", image=1, relation="transformed copy"),
            match("3", "rad train", "hard", method="bytes"),
        ],
    )
    run = MatrixRun("rad test", items, matches, ["web", "rad train", "empty"])
    found = leakage_matrix([run], datasets={"rad test": "rad", "rad train": "rad"})

    def cell(corpus: str, unit: str, degree: str) -> tuple[int, int]:
        (row,) = found.filter(
            (pl.col("corpus") == corpus) & (pl.col("unit") == unit) & (pl.col("kind") == degree)
        ).iter_rows(named=True)
        assert row["low"] <= row["rate"] <= row["high"]
        return row["leaked"], row["n"]

    assert cell("web", "images", "hard") == (1, 4)
    assert cell("web", "images", "soft") == (2, 4)  # q and s; p is hard already
    assert cell("web", "images", "hard or soft") == (3, 4)
    assert cell("web", "images", "same image") == (1, 4)
    assert cell("web", "images", "transformed copy") == (1, 4)  # s; p is the same image elsewhere
    assert cell("web", "images", "copy") == (2, 4)
    assert cell("web", "questions", "copy") == (3, 4)
    assert cell("web", "questions", "hard") == (2, 4)
    assert cell("web", "questions", "soft") == (2, 4)
    assert cell("rad train", "images", "hard") == (1, 4)
    assert cell("empty", "questions", "hard or soft") == (0, 4)
    scope = dict(found.select("corpus", "scope").unique().iter_rows())
    assert scope == {"web": "inter", "rad train": "intra", "empty": "inter"}
    only = leakage_matrix([run], methods=["bytes"])
    assert only.filter(pl.col("corpus") == "web")["leaked"].sum() == 0
    # The same picture under many questions widens nothing: intervals are by cluster.
    methods = set(found.select("unit", "interval").iter_rows())
    assert ("images", "clopper-pearson") in methods
    assert ("questions", "clopper-pearson over effective clusters") in methods


def test_matrix_of_a_benchmark_without_comparable_images_has_no_rate() -> None:
    run = MatrixRun("b", table("items", [item("1", [""], "1")]), table("matches", []), ["web"])
    found = leakage_matrix([run])
    assert found["n"].to_list() == [0] * 12
    assert found["rate"].null_count() == 12
    assert leakage_matrix([]).columns == found.columns


def test_degrees_of_pixels_are_its_own_and_of_its_measured_version() -> None:
    from heldout.overlap.images.encoder import open_encoder

    found = degrees_of(open_encoder("pixels").identity)
    assert found is not None
    assert (found.hard, found.soft) == (0.63, 0.5)
    assert "slices of one" in found.basis
    assert degrees_of("pixels-2 | squash 64 grey") is None
