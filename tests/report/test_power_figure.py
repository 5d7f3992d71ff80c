"""Power against dose: one panel per detector, whatever it is called."""

from __future__ import annotations

from xml.etree import ElementTree

from heldout.report.figures.power import DoseCurve, DosePanel, power_chart

SVG = "{http://www.w3.org/2000/svg}"


def _panel(title: str, shares: list[float]) -> DosePanel:
    lows, highs = [max(0.0, one - 0.1) for one in shares], [min(1.0, one + 0.1) for one in shares]
    return DosePanel(title, [DoseCurve("by itself", [0, 1, 10], shares, lows, highs)])


def test_every_share_is_a_point_and_higher_shares_stand_higher() -> None:
    drawn = ElementTree.fromstring(power_chart([_panel("twin-drop", [0.0, 0.5, 1.0])]))
    points = [
        (float(one.get("cx", 0)), float(one.get("cy", 0))) for one in drawn.iter(f"{SVG}circle")
    ]
    assert len(points) == 3
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_names_are_escaped_and_clean_models_are_named() -> None:
    drawn = power_chart([_panel("<script>alert(1)</script>", [0.0, 0.5, 1.0])])
    assert "<script>" not in drawn
    words = [one.text for one in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert "clean" in words and "10" in words
