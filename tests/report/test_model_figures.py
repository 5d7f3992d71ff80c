"""Figures of models, drawn from tables whose truth we planted."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from heldout.detect import ScoreTables
from heldout.errors import percent
from heldout.lab.power.planted_answers import ASKED, planted_answers
from heldout.lab.power.planted_scores import PLANTED, planted_scores
from heldout.report._models import model_figures, model_sections
from heldout.report._reproduce import templates
from heldout.report.figures import Slope, Strip, for_paper, heat_map, null_strips, slope_chart
from heldout.store import SCHEMAS, Run
from heldout.verdict import examine, save_examination


def kept(folder: Path, tables: ScoreTables) -> Run:
    run = Run.create(folder, command=["test"])
    run.update("inputs", {"benchmark": {"name": "planted", "fingerprint": "cafe"}})
    for name in ("items", "scores", "order_joint", "order_neighbour", "answers"):
        frame = getattr(tables, name)
        if frame is not None and len(frame):
            empty = pl.from_arrow(SCHEMAS[name].empty_table())
            assert isinstance(empty, pl.DataFrame)
            whole = pl.concat([empty, frame], how="diagonal_relaxed").select(SCHEMAS[name].names)
            run.write_table(name, whole.to_arrow().cast(SCHEMAS[name]))
    return run


def test_scores_make_strips_tails_and_a_map_of_pairs(tmp_path: Path) -> None:
    tables = planted_scores(3, dose=3.0)
    run = kept(tmp_path / "run", tables)
    assert model_figures(run) == []  # nobody has looked yet
    save_examination(run, examine(tables, settings=PLANTED))
    found = {figure.name: str(figure.drawn) for figure in model_figures(run)}
    assert list(found) == ["order-joint", "order-trend", "delta-tails", "jaccard"]
    for drawn in found.values():
        ElementTree.fromstring(drawn)
        assert all(model in drawn for model in tables.models)
    # Two draws of one run are the same figure.
    assert {figure.name: str(figure.drawn) for figure in model_figures(run)} == found


def test_the_grey_strip_is_the_null_of_the_test(tmp_path: Path) -> None:
    """A model that saw the release in order stands outside the grey; one that did not, inside."""
    tables = planted_scores(3, dose=3.0)
    run = kept(tmp_path / "run", tables)
    save_examination(run, examine(tables, ["order-joint"], PLANTED))
    (figure,) = model_figures(run)
    words = re.findall(r"<title>(\w+): ([-\d.]+), two-sided p = ([\d.e-]+)", figure.drawn)
    p = {name: float(value) for name, _, value in words}
    assert p["target"] < 0.01 < p["baseline"]
    # Bars of the null end left of the dot of the target.
    strips = str(figure.drawn).split("two-sided p")
    assert len(strips) == 1 + len(tables.models)


@pytest.mark.parametrize(
    ("detector", "name"), [("twin-drop", "slopes-twin"), ("twin-margin", "margins-twin")]
)
def test_answers_make_slopes_with_clean_models_in_grey(
    tmp_path: Path, detector: str, name: str
) -> None:
    tables = planted_answers(2, dose=2.0)
    run = kept(tmp_path / "run", tables)
    save_examination(run, examine(tables, [detector], ASKED))
    (figure,) = model_figures(run)
    assert figure.name == name
    ElementTree.fromstring(str(figure.drawn))
    assert "baseline (clean)" in figure.drawn
    assert re.search(r">target: drop \d+\.\d<", figure.drawn)
    assert re.search(rf"{detector} .* target \+0\.\d\d", figure.caption)


def test_a_caption_names_models_as_they_are_called(tmp_path: Path) -> None:
    """A minus sign stands before numbers alone: "model-a" is a name."""
    tables = planted_answers(2, dose=2.0)
    assert tables.answers is not None
    hyphenated = tables.answers.with_columns(pl.col("model").replace("target", "model-a"))
    tables = dataclasses.replace(tables, answers=hyphenated)
    run = kept(tmp_path / "run", tables)
    save_examination(run, examine(tables, ["twin-drop"], ASKED))
    (figure,) = model_figures(run)
    assert re.search(r"\bmodel-a [+−]0\.\d\d", figure.caption)


def test_names_of_models_are_text() -> None:
    hostile = '<script>"&'
    strip = Strip(hostile, 0.3, np.linspace(-1, 1, 50), 0.5)
    slope = Slope(hostile, (0.5, 0.4), (0.4, 0.3), (0.6, 0.5))
    for drawn in (
        null_strips([strip], title="t", label="l"),
        slope_chart([slope], ends=("a", "b")),
        heat_map([hostile], [hostile], [[0.3]], written=lambda value: f"{value:.1f}"),
    ):
        assert "<script" not in drawn
        ElementTree.fromstring(str(drawn))


def test_a_null_without_spread_still_has_an_axis() -> None:
    drawn = null_strips([Strip("m", 0.0, np.zeros(10), 1.0)], title="t", label="l")
    ElementTree.fromstring(str(drawn))
    assert "nan" not in drawn


def test_a_figure_for_papers_needs_no_style_sheet() -> None:
    drawn = for_paper(heat_map(["a"], ["b"], [[0.25]]))
    root = ElementTree.fromstring(drawn)
    assert "var(" not in drawn
    assert float(root.attrib["width"]) > 0 and float(root.attrib["height"]) > 0


@pytest.mark.parametrize("rates", [[[None]], [[0.0]]])
def test_a_map_of_nothing_is_a_map(rates: list[list[float | None]]) -> None:
    drawn = str(heat_map(["a"], ["b"], rates, missing="none there"))
    assert ("none there" in drawn) == (rates == [[None]])


def test_the_page_names_easiest_items_strata_and_orders(tmp_path: Path) -> None:
    tables = planted_scores(3, dose=3.0)
    run = kept(tmp_path / "run", tables)
    run.update("models", {name: {"backend": "made up"} for name in tables.models})
    made = examine(tables, settings=PLANTED)
    save_examination(run, made)
    section = next(one for one in model_sections(run) if one["name"] == "target")
    page = templates().get_template("model_items.html.j2").render(model=section)
    assert section["easiest"]["ten"]["score"] == "Δ of min-k++"
    assert len(section["easiest"]["shown"]) == 10
    top = next(o for o in made.easiest if (o.model, o.score) == ("target", "min-k++"))
    for item in top.items:
        assert f"<code>{item.benchmark_id}</code>" in page
    rows = [row for rows in section["tails"]["fields"].values() for row in rows]
    assert {row["stratum"] for row in rows} == {
        "CLOSED",
        "OPEN",
        "1 word",
        "2-3 words",
        "fresh",
        "public",
    }
    for row in rows:
        assert f">{percent(row['rate'])}</td>".replace(" %", "\N{NO-BREAK SPACE}%") in page
    assert "<code>by_mink_pp</code>" in page
    assert "flagged picture" not in page  # nothing was searched
