"""heldout lab power: a detector's power and false positives are those that were planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from small_grid import HALF, write_small_grid

from heldout.detect import ScoreTables, detectors
from heldout.errors import InputError
from heldout.lab.power._answers import answers
from heldout.lab.power.board import standings, with_truth
from heldout.lab.power.models import (
    MARK,
    MOST_BASES,
    OTHER_SEEDS,
    RAW,
    SAME_BASE,
    LabGrid,
    fewer_shuffles,
    marked,
    read_grid,
)
from heldout.lab.power.run import EQUAL_COST, affordable_shuffles, run_power
from heldout.lab.settings import PowerSettings
from heldout.store import Run

NAMES = ("twin-drop", "loss", "blind", "order-joint", "twin-consistency", "tail-enrichment")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> LabGrid:
    return read_grid(write_small_grid(tmp_path_factory.mktemp("lab")))


@pytest.fixture(scope="module")
def cells(grid: LabGrid, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    out = tmp_path_factory.mktemp("power")
    return out, run_power(
        grid, out, PowerSettings(permutations=199, detectors=NAMES), lambda _: None
    )


def test_roles_follow_what_was_planted(grid: LabGrid) -> None:
    roles = {name: model.role("scenes") for name, model in grid.models.items()}
    assert roles["scenes0-d10"] == "contaminated"
    assert roles["scenes0-clean-a"] == roles["scenes0"] == "clean"
    assert roles["films0"] == "outsider"


def test_references_are_clean_and_of_the_bases_the_way_says(grid: LabGrid) -> None:
    assert grid.references("scenes", "scenes0", RAW) == ()
    assert grid.references("scenes", "scenes0", OTHER_SEEDS) == (
        "scenes1-clean-a",
        "scenes1-clean-b",
    )
    assert grid.references("scenes", "scenes0", SAME_BASE) == ("scenes0-clean-a", "scenes0-clean-b")
    assert len(grid.references("scenes", "films0", OTHER_SEEDS)) == 4


def test_drawn_references_are_each_bases_own(grid: LabGrid) -> None:
    """With the first ones by name all bases of a benchmark would share them."""
    one = grid.models["scenes0-clean-a"]
    names = [f"scenes{number}" for number in range(20, 40)]
    models = {f"{base}-a": replace(one, name=f"{base}-a", base=base) for base in names}
    whole = LabGrid(grid.folder, models, ["scenes"])
    many = replace(whole, drawn=True)
    drawn = {base: many.references("scenes", base, OTHER_SEEDS) for base in names}
    assert all(len(set(found)) == MOST_BASES for found in drawn.values())
    assert not any(f"{base}-a" in found for base, found in drawn.items())
    assert len(set(drawn.values())) == len(names)
    assert {name for found in drawn.values() for name in found} == set(models)
    assert drawn["scenes20"] == many.references("scenes", "scenes20", OTHER_SEEDS)
    assert len({whole.references("scenes", base, OTHER_SEEDS) for base in names[8:]}) == 1


def test_a_model_is_never_its_own_reference(cells: tuple[Path, pl.DataFrame]) -> None:
    rows = cells[1].filter((pl.col("detector") == "twin-drop") & (pl.col("way") == SAME_BASE))
    counts = dict(zip(rows["model"], rows["references"], strict=True))
    assert counts["scenes0-clean-a"] == 1 and counts["scenes0-d10"] == 2
    assert "films0" not in counts


def test_twin_drop_fires_where_memory_was_planted(cells: tuple[Path, pl.DataFrame]) -> None:
    twin = cells[1].filter(pl.col("detector") == "twin-drop")
    for way in (RAW, OTHER_SEEDS, SAME_BASE):
        mine = twin.filter(pl.col("way") == way)
        assert (mine.filter(pl.col("arm") == "d10")["direction"] == "seen").all()
        assert (mine.filter(pl.col("role") != "contaminated")["direction"] == "seen").mean() < 0.3


def test_membership_compares_leaked_with_other_pictures(cells: tuple[Path, pl.DataFrame]) -> None:
    loss = cells[1].filter((pl.col("detector") == "loss") & (pl.col("way") == RAW))
    assert set(loss["split"]) == {"scenes0-half-d10", "scenes1-half-d10"}
    seen = loss.filter(pl.col("role") == "contaminated")
    assert (seen["model"] == seen["split"]).all() and seen["item_auc"].min() > 0.7  # type: ignore[operator]
    clean = loss.filter(pl.col("role") == "clean")["item_auc"]
    assert abs(float(clean.mean()) - 0.5) < 0.1  # type: ignore[arg-type]


def test_the_page_sets_item_scores_beside_the_blind_baseline(
    grid: LabGrid, cells: tuple[Path, pl.DataFrame]
) -> None:
    rows = with_truth(cells[1], grid)
    told = answers(rows, standings(rows))
    blind = next(line for line in told if line.startswith("| blind |"))
    assert blind.count("0.") == 1  # one area per benchmark and dose: a mean over bases
    assert "| detector | way | scenes, dose 10 | fires | clean models fire |" in told
    loss = next(line for line in told if line.startswith("| loss | raw |"))
    assert "2 of 2" in loss


def test_marks_follow_the_released_order_of_pictures(grid: LabGrid) -> None:
    tables = ScoreTables.load(Run.open(grid.folder / "scenes"))
    told = [json.loads(text)[MARK[0]] for text in marked(tables, HALF).items["metadata"]]
    assert told[:6] == ["yes"] * 3 + ["no"] * 3 and told.count("yes") == 36


def test_what_cannot_be_tested_says_why(cells: tuple[Path, pl.DataFrame]) -> None:
    rows = cells[1].filter(pl.col("effect").is_null())
    assert (rows["reason"] != "").all() and set(rows["detector"]) == {"tail-enrichment"}


def test_finished_cells_are_kept_and_others_added(
    grid: LabGrid, cells: tuple[Path, pl.DataFrame]
) -> None:
    path = cells[0] / "cells" / "scenes" / "twin-drop--raw.parquet"
    kept = pl.read_parquet(path)
    # A number no detector would give shows that it was read, not computed.
    changed = kept.filter(pl.col("model") != "scenes0-d1").with_columns(effect=pl.lit(7.0))
    changed.write_parquet(path)
    again = run_power(
        grid, cells[0], PowerSettings(permutations=199, detectors=("twin-drop",)), lambda _: None
    )
    raw = again.filter(pl.col("way") == RAW)
    assert raw.filter(pl.col("effect") == 7.0).height == len(kept) - 1
    fresh = raw.filter(pl.col("model") == "scenes0-d1")["effect"].item()
    assert fresh == kept.filter(pl.col("model") == "scenes0-d1")["effect"].item()
    kept.write_parquet(path)


def test_results_of_other_settings_are_not_mixed(
    grid: LabGrid, cells: tuple[Path, pl.DataFrame]
) -> None:
    with pytest.raises(InputError, match="tables or settings"):
        run_power(
            grid,
            cells[0],
            PowerSettings(permutations=299, detectors=("twin-drop",)),
            lambda _: None,
        )


def test_equal_cost_buys_fewer_shuffles(grid: LabGrid) -> None:
    tables = ScoreTables.load(Run.open(grid.folder / "scenes"))
    most = affordable_shuffles(tables, {})
    fewer = fewer_shuffles(tables, most)
    cheap = detectors()["order-joint"].forward_tokens(fewer, "scenes0")
    near = detectors()["order-neighbour"].forward_tokens(tables, "scenes0")
    assert cheap is not None and near is not None and cheap <= near
    whole = detectors()["order-joint"].forward_tokens(tables, "scenes0")
    assert whole is not None and cheap < whole
    assert EQUAL_COST != "order-joint"


def test_tokens_of_answers_are_counted(grid: LabGrid) -> None:
    tables = ScoreTables.load(Run.open(grid.folder / "scenes"))
    assert detectors()["twin-drop"].forward_tokens(tables, "scenes0") == 72 * 2 * 91
    assert (
        detectors()["multimodal-leakage"].forward_tokens(tables, "scenes0") == 2 * 72 * 31
    )  # the base as well


def test_recorded_tokens_of_scores_and_order_tests_are_taken_as_they_are(grid: LabGrid) -> None:
    tables = ScoreTables.load(Run.open(grid.folder / "scenes"))
    shards = {str(shard): 100 + shard for shard in range(6)}
    read = {"scores": 1234, "order_joint": shards, "order_neighbour": 777}
    assert detectors()["loss"].forward_tokens(tables, "scenes0", read) == 1234
    assert detectors()["order-neighbour"].forward_tokens(tables, "scenes0", read) == 777
    assert detectors()["order-joint"].forward_tokens(tables, "scenes0", read) == 10 * sum(
        shards.values()
    )
    fewer = fewer_shuffles(tables, 2)  # the released order and two others
    assert detectors()["order-joint"].forward_tokens(fewer, "scenes0", read) == 3 * sum(
        shards.values()
    )
    assert detectors()["twin-drop"].forward_tokens(tables, "scenes0", read) == 72 * 2 * 91
    assert not grid.about.counted


def test_a_folder_without_a_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"models\.json"):
        read_grid(tmp_path)


def test_an_unknown_detector_is_refused(grid: LabGrid, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no detector 'palm-reading'"):
        run_power(
            grid,
            tmp_path,
            PowerSettings(permutations=199, detectors=("palm-reading",)),
            lambda _: None,
        )
