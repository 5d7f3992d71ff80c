"""heldout lab power from the command line: a page with its numbers, figures and rows."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from command_line import run_inside

sys.path.insert(0, str(Path(__file__).parents[1] / "lab/power"))
from small_grid import write_small_grid

from heldout.verdict import read_rates


def test_the_page_stands_beside_its_figure_and_rows(tmp_path: Path) -> None:
    lab = write_small_grid(tmp_path / "lab")
    names = ("twin-drop", "order-joint", "order-neighbour", "order-joint at equal cost")
    chosen = [word for name in names for word in ("--detector", name)]
    done = run_inside(
        "lab",
        "power",
        lab,
        "--out",
        tmp_path / "out",
        "--publish",
        tmp_path / "docs",
        "--permutations",
        "99",
        *chosen,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "docs" / "detector-power.md").read_text()
    assert "| twin-drop | " in page and "## Three requirements" in page
    for question in (
        "order was shuffled",
        "first fire",
        "equal token cost",
        "paraphrased",
    ):
        assert question in page
    assert (
        (tmp_path / "docs" / "figures" / "detector-power-scenes.svg").read_text().startswith("<svg")
    )
    rows = pl.read_parquet(tmp_path / "docs" / "data" / "detector-power.parquet")
    assert set(names) == set(rows["detector"])
    assert {"stage", "paraphrased"} <= set(rows.columns)
    rates = read_rates(tmp_path / "docs" / "data" / "detector-rates.json")
    assert {one.detector for one in rates.rates} == set(
        names[:3]
    )  # equal cost is no detector's name
    twin = rates.of("twin-drop", "raw")
    assert twin is not None and (twin.clean.n, twin.contaminated.n) == (6, 6)
    assert rates.provenance.models["scenes"] == {"contaminated": 6, "clean": 6, "outsider": 1}

    earlier = tmp_path / "earlier.parquet"
    older = rows.with_columns(benchmark=pl.lit("older"), p=pl.lit(1.0))
    pl.concat([older, rows.with_columns(p=pl.lit(0.0))]).write_parquet(earlier)
    again = ("lab", "power", lab, "--out", tmp_path / "out", "--permutations", "99", *chosen)
    assert run_inside(*again, "--rows", earlier).returncode == 0
    both = pl.read_parquet(tmp_path / "out/data/detector-power.parquet")
    assert both.filter(pl.col("benchmark") == "scenes").equals(rows)  # the grid's own are counted
    assert both.filter(pl.col("benchmark") == "older").equals(older)
    assert "Rows of older were not counted anew" in (tmp_path / "out/detector-power.md").read_text()
    done = run_inside(*again, "--rows", lab / "models.json")
    assert done.returncode == 2 and "models.json: expected a" in done.stderr


def test_rates_of_some_detectors_are_not_for_the_verdict(tmp_path: Path) -> None:
    lab = write_small_grid(tmp_path / "lab")
    done = run_inside(
        "lab",
        "power",
        lab,
        "--out",
        tmp_path / "out",
        "--detector",
        "twin-drop",
        "--rates-to",
        tmp_path / "rates.json",
    )
    assert done.returncode == 2 and "--rates-to needs every detector" in done.stderr


def test_a_folder_without_models_is_a_sentence(tmp_path: Path) -> None:
    done = run_inside("lab", "power", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 2 and "heldout lab train wrote" in done.stderr
