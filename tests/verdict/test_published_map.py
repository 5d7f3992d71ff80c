"""The published claims-to-evidence map from its own tables: where our rules agree, and where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.detect import Cell
from heldout.verdict import Claim
from heldout.verdict.published_map import Reading, read_map

QWEN = "Qwen/Qwen2.5-VL-7B-Instruct"
LLAVA = "llava-hf/llava-onevision-qwen2-7b-ov-hf"


@pytest.fixture(scope="module")
def readings(shared_data: Path) -> dict[tuple[str, str, str], Reading]:
    made = read_map(shared_data.parent / "golden/medvlm")
    return {(one.kind, one.benchmark, one.on): one for one in made}


def test_the_pathvqa_hit_is_re_attributed_because_the_baseline_fires_too(
    readings: dict[tuple[str, str, str], Reading],
) -> None:
    one = readings["order", "pathvqa", LLAVA]
    assert (one.published, one.ours, one.rule) == (
        "re-attributed",
        "re-attributed",
        "order/baseline-fires-too",
    )
    assert "blip2" in one.why


def test_cohort_relative_tails_collapse(readings: dict[tuple[str, str, str], Reading]) -> None:
    tails = [
        one
        for key, one in readings.items()
        if key[0] == "cohort" and key[1] != "synthetic" and "&" not in key[2]
    ]
    assert {one.on for one in tails} == {"StanfordAIMI/CheXagent-8b", LLAVA}
    assert {one.ours for one in tails} == {"collapses"}
    pair = readings["cohort", "slake_en", f"StanfordAIMI/CheXagent-8b & {LLAVA}"]
    assert pair.ours == "collapses"


def test_vqa_rad_is_clean_in_text_and_by_the_stricter_backbone(
    readings: dict[tuple[str, str, str], Reading],
) -> None:
    words = [one for key, one in readings.items() if key[:2] == ("order", "vqa_rad")]
    assert len(words) == 5
    assert {one.ours for one in words} == {"clean"}
    assert readings["nearness", "vqa_rad", "image_nn_so400m at 0.01"].ours == "clean"


def test_it_disagrees_where_the_published_reading_is_wrong_and_says_why(
    readings: dict[tuple[str, str, str], Reading],
) -> None:
    omni = readings["order", "omnimedvqa", QWEN]
    assert (omni.published, omni.ours) == ("survives", "re-attributed")
    assert "later easier" in omni.why  # the baseline that "remains clean" lies in the other tail
    slake = readings["order", "slake_en", QWEN]
    assert (slake.published, slake.ours) == ("survives", "qualified")
    assert "per-item likelihoods" in slake.why
    near = readings["nearness", "slake_en", "image_nn at 0.01"]
    assert (near.published, near.ours) == ("survives", "qualified")
    assert "per question" in near.why
    strict = readings["nearness", "slake_en", "image_nn at 0.001"]
    assert (
        strict.ours == "clean"
    )  # "robust across two orders of magnitude": nothing is flagged here
    rad = readings["nearness", "vqa_rad", "image_nn at 0.01"]
    assert (rad.published, rad.ours) == ("clean", "qualified")


def test_a_claim_made_from_items_takes_the_place_of_what_tables_allow(shared_data: Path) -> None:
    claim = Claim(
        id="order/q",
        cell=Cell(benchmark="slake_en", model=QWEN),
        sentence="s",
        why="within location",
        status="re-attributed",
        rule="order/structure",
        findings=[],
    )
    made = read_map(shared_data.parent / "golden/medvlm", {("slake_en", QWEN): claim})
    one = next(r for r in made if (r.kind, r.benchmark, r.on) == ("order", "slake_en", QWEN))
    assert (one.ours, one.why) == ("re-attributed", "within location")
