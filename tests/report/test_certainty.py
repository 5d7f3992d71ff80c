"""How sure the copies are: proven by digests, verified with a measured precision, or people's word."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from heldout.detect import Cell
from heldout.report._first_screen import first_screen
from heldout.report.certainty import certainty, published
from heldout.report.outline import outline
from heldout.stats import binomial_interval
from heldout.verdict import Claim
from heldout.verdict.overall import CellVerdict, LeakRate

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("believed", "registered", "sure"),
    [
        (0, 0, "Certain: every copy counted is proven by equal bytes or equal pixels."),
        (5, 0, "Items by their picture: 1 proven (equal bytes or pixels), 5 by people's word."),
        (0, 6, "Items by their picture: 6 verified (aligned detail agrees)."),
        (
            2,
            3,
            "Items by their picture: 1 proven (equal bytes or pixels), 3 verified (aligned detail "
            "agrees), 2 by people's word.",
        ),
    ],
)
@pytest.mark.parametrize("rendered", [True, False])
def test_only_equal_bytes_or_pixels_are_called_certain(
    believed: int, registered: int, sure: str, rendered: bool
) -> None:
    found = Claim(
        id="overlap/web",
        cell=Cell(benchmark="b", corpus="web"),
        sentence="6 of 40 images leaked.",
        status="survives",
        why="",
        rule="copies/copy-found",
        findings=[],
    )
    rate = LeakRate(7, 40, binomial_interval(7, 40))
    evidence = {
        "same image and answer": 2,
        "same image": 4,
        "question and answer without the image": 1,
    }
    cell = CellVerdict(
        found.cell, "survives", [found], rate, evidence, believed, registered, rendered=rendered
    )
    screen = first_screen([cell.as_json()], [], {})
    words = screen["grid"]["rows"][0]["cells"][0]["words"]
    assert words.startswith("7 of 40 items")
    assert (f", {believed} of them" in words) == (believed > 0)
    assert screen["sure"][0].startswith(sure)
    # A rate holds for what it was measured on: of other pictures none is quoted.
    share = f"{published().right} of {published().said} such pairs were copies (95 %"
    quoted = share in screen["measured"]
    assert quoted == (bool(registered) and rendered)
    assert ("not measured on" in screen["measured"]) == (bool(registered) and not rendered)


def test_undecided_items_are_the_upper_end_wherever_the_rate_stands() -> None:
    rate = LeakRate(12, 96, binomial_interval(12, 96))
    possible = LeakRate(57, 96, binomial_interval(57, 96))
    cell = CellVerdict(
        Cell(benchmark="b", corpus="web"),
        "survives",
        [],
        replace(rate, possible=possible, uncompared=1),
        {"same image": 12, "undecided near-duplicate": 45},
    )
    screen = first_screen([cell.as_json()], [], {})
    line = screen["leaked"]["lines"][0]["words"]
    words = screen["grid"]["rows"][0]["cells"][0]["words"]
    assert words.startswith("12 of 96 items ")
    for text in (line, words):
        assert "up to 57 (59.4 %)" in text and "45 undecided items" in text
    # An item that was not compared is said wherever the rate stands: it must not pass for clean.
    (row,) = outline([cell.as_json()], [], []).rows
    for text in (line, words, screen["sentence"], row.number):
        assert "; 1 item could not be compared" in text
    quiet = replace(cell, status="clean", leak=LeakRate(0, 96, rate.interval, uncompared=2))
    (row,) = outline([quiet.as_json()], [], []).rows
    for text in (row.number, first_screen([quiet.as_json()], [], {})["sentence"]):
        assert "; 2 items could not be compared" in text


def test_an_older_verdict_calls_nothing_proven_that_it_does_not_know_to_be() -> None:
    told, _ = certainty([{"evidence": {"same image": 4}, "by_people": 1}])
    assert "3 verified" in told


def test_items_in_several_corpora_are_not_added_up() -> None:
    """One item can be in both: 4 and 3 items need not be 7."""
    cells = [
        {
            "corpus": name,
            "evidence": {"same image": count},
            "by_people": 0,
            "by_registration": count,
        }
        for name, count in (("web", 4), ("books", 3))
    ]
    sentence, _ = certainty(cells)
    assert re.search(r"4 verified \(.*\) in web; 3 verified", sentence)
    assert "7" not in sentence
