from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from jinja2 import Environment

from heldout.report.figures import (
    Curve,
    OperatingPoint,
    RateBar,
    Series,
    WaterfallStep,
    bar_chart,
    bin_chart,
    flag_fraction_chart,
    funnel_chart,
    heat_map,
    rate_chart,
    roc_chart,
    similarity_histogram,
    standalone,
)
from heldout.report.figures.svg import Axes, Scale, heading

HOSTILE = '<script>alert("x")</script> & </svg>'


def histogram(name: str) -> str:
    rng = np.random.default_rng(0)
    null = 1 - rng.gamma(4, 0.02, 2000)
    near = 1 - rng.gamma(2, 0.02, 96)
    return similarity_histogram(
        near, null, threshold=0.98, interval=(0.975, 0.985), alpha=0.01, name=name
    )


def sweep(name: str) -> str:
    alphas = [0.001, 0.01, 0.1]
    return flag_fraction_chart(
        [Series(name, alphas, [0, 0.2, 0.6], [0, 0.1, 0.5], [0.03, 0.3, 0.7])]
    )


def heat(name: str) -> str:
    return heat_map([name, "gcc"], ["coco", "flickr30k"], [[0.031, 0.0], [None, 1.0]], title=name)


def transforms(name: str) -> str:
    dots = [RateBar(row, 0.5, series=series) for row in (name, "crop") for series in (name, "b")]
    return rate_chart(dots, title=name, label="share of copies")


def roc(name: str) -> str:
    point = OperatingPoint(name, 1e-7, 0.16)
    return roc_chart(
        [Curve(name, [0, 1e-6, 1], [0.1, 0.9, 1], 0.98)], points=[point], smallest=1e-8
    )


def bars(name: str) -> str:
    return bar_chart({name: 5, **{f"kind {number}": 1 for number in range(20)}}, title=name)


def rates(name: str) -> str:
    return rate_chart([RateBar(name, 0.5, 0.3, 0.7, name)], title=name, label="share")


def bins(name: str) -> str:
    return bin_chart([0, 0.5, 1], [3, 0], title=name, label="cosine", unit="items", threshold=0.88)


def funnel(name: str) -> str:
    lost = [(name, 3), ("licence", 2), ("no caption", 1), ("no image", 1)]
    return funnel_chart([WaterfallStep(name, 10, []), WaterfallStep("select", 0, lost)], title=name)


FIGURES = [histogram, sweep, heat, transforms, roc, bars, rates, bins, funnel]


@pytest.mark.parametrize("draw", FIGURES)
def test_every_figure_is_well_formed_and_escapes_what_it_is_given(
    draw: Callable[[str], str],
) -> None:
    drawn = draw(HOSTILE)
    root = ElementTree.fromstring(drawn)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "text", "line", "rect", "circle", "path"}
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert "nan" not in drawn.lower().replace("noscan", "")
    assert "inf" not in re.sub(r"<text.*?</text>", "", drawn)
    assert any(HOSTILE[:12] in (element.text or "") for element in root.iter())


@pytest.mark.parametrize("draw", FIGURES)
def test_every_figure_takes_the_colours_of_its_page_and_fits_it(draw: Callable[[str], str]) -> None:
    drawn = draw("a")
    root = ElementTree.fromstring(drawn)
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for element in root.iter():
        if element.tag.endswith("text"):
            assert "fill:var(--" in str(element.get("style"))
            x, y = float(str(element.get("x"))), float(str(element.get("y")))
            reach = 6.6 * len(element.text or "") * float(str(element.get("font-size"))) / 12
            left = {"start": 0.0, "middle": 0.5, "end": 1.0}[str(element.get("text-anchor"))]
            assert 0 <= y <= height
            if element.get("transform") is None:
                assert x - left * reach >= -4
                assert x + (1 - left) * reach <= width + 4
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_a_template_takes_a_figure_as_it_is_and_nothing_else() -> None:
    page = Environment(autoescape=True).from_string("{{ figure }}{{ words }}")
    shown = page.render(figure=transforms("a"), words=HOSTILE)
    assert shown.startswith("<svg")
    assert "<script>" not in shown


def test_standalone_brings_its_colours() -> None:
    alone = standalone(heat("a"))
    ElementTree.fromstring(alone)
    assert "prefers-color-scheme:dark" in alone
    for name in set(re.findall(r"var\((--\w+)", alone)):
        assert f"{name}:" in alone


def test_histogram_says_the_threshold_of_the_claim_and_how_many_are_above() -> None:
    near = [0.999, 0.99, 0.95, 0.5]
    drawn = similarity_histogram(near, np.linspace(0.5, 0.97, 200), threshold=0.98, alpha=0.01)
    assert "threshold 0.9800 (α = 0.01)" in drawn
    assert "2 of 4 above" in drawn


def test_histogram_survives_copies_and_an_empty_set() -> None:
    drawn = similarity_histogram([1.0 + 1e-7] * 5, np.full(10, 0.9), threshold=0.95)
    assert "5 of 5 above" in drawn
    ElementTree.fromstring(similarity_histogram([], [0.9], threshold=0.95))


def test_sweep_draws_nothing_flagged_as_hollow_on_the_floor() -> None:
    drawn = sweep("a")
    hollow = re.findall(r"<circle [^>]*fill:var\(--card", drawn)
    assert len(hollow) == 1
    assert "hollow: none above" in drawn


def test_heat_map_tells_zero_from_not_scanned() -> None:
    drawn = heat("laion")
    assert "3.10 %" in drawn
    assert "100.0 %" in drawn
    assert drawn.count(">0<") == 1
    assert drawn.count("not scanned") == 1


def test_values_of_one_name_stand_in_one_row_and_differ_by_their_filling() -> None:
    drawn = transforms("flip")
    rows = re.findall(r"<text [^>]*text-anchor=\"end\"[^>]*>(flip|crop)<", drawn)
    assert rows == ["flip", "crop"]
    hollow = re.findall(r"<circle [^>]*fill:var\(--card", drawn)
    assert len(hollow) == 3 and drawn.count("<circle") == 6  # two rows, and the legend


@pytest.mark.parametrize("length", [10, 70, 90, 300])
def test_a_long_title_gets_smaller_and_then_shorter_but_is_never_clipped(length: int) -> None:
    title = ElementTree.fromstring(heading("m" * length, 640.0))
    size, shown = float(str(title.get("font-size"))), str(title.text)
    assert 12 + 0.58 * size * len(shown) <= 640
    assert 11 <= size <= 14
    assert shown == "m" * length or shown.endswith("…")


def test_roc_shows_an_area_that_is_not_quite_one() -> None:
    drawn = roc_chart(
        [Curve("clip", [0, 1], [1, 1], 0.99999994), Curve("all", [0, 1], [1, 1], 1.0)]
    )
    assert "AUC 0.9999999" in drawn
    assert "AUC 1.000" in drawn


def test_scales_put_values_where_they_belong() -> None:
    axes = Axes(Scale(0.001, 0.1, log=True), Scale(0.0, 1.0))
    middle = (axes.left + axes.width - axes.right) / 2
    assert axes.x(0.01) == pytest.approx(middle)
    assert axes.y(2.0) == axes.top  # beyond the end stays at the end
    assert Scale(0.0, 0.3).ticks() == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])
    assert Scale(0.001, 0.1, log=True).ticks() == pytest.approx([0.001, 0.003, 0.01, 0.03, 0.1])
    assert Scale(1e-8, 1.0, log=True).ticks()[-1] == 1.0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 3e-6, ["0", "5·10⁻⁷", "10⁻⁶", "1.5·10⁻⁶", "2·10⁻⁶", "2.5·10⁻⁶", "3·10⁻⁶"]),
        (1.0, 1.00003, None),
        (2e6, 2.3e6, None),
        (0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_no_two_labels_of_an_axis_are_the_same(
    low: float, high: float, expected: list[str] | None
) -> None:
    axes = Axes(Scale(0.0, 1.0), Scale(low, high))
    marks = [
        re.sub("<[^>]+>", "", mark) for mark in axes.frame("t", "x", "y") if 'anchor="end"' in mark
    ]
    assert len(marks) == len(set(marks)) == len(axes.y_scale.ticks())
    assert expected is None or marks == expected
