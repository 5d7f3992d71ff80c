"""What an audit tells its reader to do."""

from __future__ import annotations

from heldout.verdict.recommend import _difference


def test_a_difference_names_the_items_it_stands_on() -> None:
    lines = [{"subset": "original", "items": 198}]
    owed = {"value": -0.01, "p_adjusted": 1.0, "compared": 188}
    told = _difference({"lines": lines, "owed": [owed]})
    assert told.startswith(
        " (-1.0 points with leaks among the 188 items that are leaked or clean, corrected p"
    )
    whole = _difference({"lines": lines, "owed": [{**owed, "compared": 198}]})
    assert whole.startswith(" (-1.0 points with leaks, corrected p")
