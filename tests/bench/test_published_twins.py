"""The published MMStar rows as arithmetic: same Δ, and what they allow and do not allow to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.detect import DetectSettings, Finding
from heldout.verdict import Examination, examine
from published_twins import (
    KEPT,
    PublishedRow,
    allowed_answers,
    extremes,
    least_z,
    published_rows,
)

LLAVA, QWEN = "LLaVA-v1.5-7B (Clean)", "Qwen2-VL-7B (Clean)"
ROWS = [
    PublishedRow(LLAVA, 37.78, 69.29, 31.51),
    PublishedRow("LLaVA-7B LoRA 3ep (Contam.)", 54.34, 38.18, -16.16),
    PublishedRow("LLaVA-7B LLM+MLP 3ep (Contam.)", 50.71, 36.97, -13.74),
    PublishedRow(QWEN, 62.02, 78.18, 16.16),
    PublishedRow("Qwen2-VL-7B LoRA 3ep (Contam.)", 95.96, 63.64, -32.32),
    PublishedRow("Qwen2-VL-7B LLM only 3ep (Contam.)", 98.99, 55.96, -43.03),
]
CONTAMINATED = [row for row in ROWS if "Contam" in row.model]


def test_the_seed_says_these_rows(shared_data: Path) -> None:
    (seed,) = (shared_data.parent / "seeds").glob("003_*.txt")
    assert published_rows(seed.read_text()) == ROWS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.model)
def test_rates_are_counts_of_495_items_and_delta_is_theirs(row: PublishedRow) -> None:
    counts = row.counts()
    assert counts is not None
    exact = 100 * (counts[1] - counts[0]) / KEPT
    # The first row's +31.51 is a difference of rounded rates; 156 of 495 items are +31.52.
    assert exact == pytest.approx(row.delta, abs=0.006 if row.model == LLAVA else 0.005)
    assert PublishedRow("x", 37.77, 69.29, 0.0).counts() is None


@pytest.mark.parametrize("agreeing", [True, False])
def test_twin_drop_prints_the_published_delta_with_p_and_interval(agreeing: bool) -> None:
    made = _examined(agreeing)
    for row in ROWS:
        found = _finding(made, row.model)
        counts = row.counts()
        assert counts is not None
        assert 100 * found.statistic.value == pytest.approx(row.delta, abs=0.006)
        ends = extremes(*counts)
        exact = ends.p_agreeing if agreeing else ends.p_opposed
        assert found.p == exact.exact
        assert found.details["mcnemar"]["mid_p"] == exact.mid
        assert found.effect.low <= -row.delta / 100 <= found.effect.high
        assert found.direction == ("seen" if row.delta < 0 else "not seen")
        assert (found.n, found.clusters) == (KEPT, KEPT)


def test_extremes_bound_every_table_the_row_allows() -> None:
    ends = extremes(269, 189)
    assert ends.agreeing == (189, 80, 0, 226)
    assert ends.opposed == (0, 269, 189, 37)
    assert ends.p_agreeing.exact < ends.p_opposed.exact < 0.001


def test_without_a_clean_model_every_row_is_only_qualified() -> None:
    assert {claim.status for claim in _examined(False).claims} == {"qualified"}


@pytest.mark.parametrize("agreeing", [True, False])
def test_against_one_clean_model_contamination_is_possible_and_so_is_a_clean_strangers(
    agreeing: bool,
) -> None:
    made = _examined(agreeing, LLAVA)
    status = {claim.cell.model: claim.status for claim in made.claims}
    for row in CONTAMINATED:
        (claim,) = (claim for claim in made.claims if claim.cell.model == row.model)
        assert claim.status == "qualified"
        missing = [control.name for control in claim.controls if control.outcome != "passed"]
        assert missing == ["spread of clean models"]  # everything else was passed
    # Clean Qwen gains 15 points less than clean LLaVA: as large as a published contamination.
    stranger = _finding(made, QWEN)
    assert stranger.direction == "seen"
    assert stranger.effect.value == pytest.approx(76 / KEPT)
    assert status[QWEN] == "qualified"


def test_a_delta_of_nine_items_is_identified_by_a_reference_alone() -> None:
    """The published "detection works at -1.82" rests on nine items more right than wrong."""
    ends = extremes(187, 178)
    assert ends.p_agreeing.exact < 0.05 < 0.5 < ends.p_opposed.exact
    assert least_z(-9 / KEPT - 156 / KEPT) > 3


def _examined(agreeing: bool, *references: str) -> Examination:
    tables = allowed_answers(ROWS, agreeing=agreeing)
    return examine(tables, ["twin-drop"], DetectSettings(baselines=references, permutations=999))


def _finding(made: Examination, model: str) -> Finding:
    return next(one for one in made.findings if one.cell.model == model)
