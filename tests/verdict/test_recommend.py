"""What an audit tells its reader to do."""

from __future__ import annotations

import polars as pl

from heldout.detect import Cell
from heldout.evidence import Rung
from heldout.stats import Interval
from heldout.store import make_table
from heldout.verdict.overall import BenchmarkVerdict, CellVerdict, LeakRate, _difference, recommend


def test_a_difference_names_the_items_it_stands_on() -> None:
    lines = [{"subset": "original", "items": 198}]
    owed = {"value": -0.01, "p_adjusted": 1.0, "compared": 188}
    told = _difference({"lines": lines, "owed": [owed]})
    assert told.startswith(" (−1.0 points ") and " 188 items " in told
    whole = _difference({"lines": lines, "owed": [{**owed, "compared": 198}]})
    assert whole.startswith(" (−1.0 points ") and "items" not in whole


def _leaked(leaked: int) -> BenchmarkVerdict:
    cell = Cell(benchmark="b", corpus="web")
    rate = LeakRate(leaked, 4, Interval(0.0, 1.0, 0.95, "none"))
    rows = [{"benchmark_id": f"q{n}", "corpus": "web", "rung": Rung.COPY} for n in range(leaked)]
    leaks = pl.DataFrame(make_table("leaks", rows))
    return BenchmarkVerdict("b", "run", [CellVerdict(cell, "survives", [], rate)], leaks, {})


def test_a_benchmark_that_leaked_whole_has_nothing_left() -> None:
    whole = [one["sentence"] for one in recommend([_leaked(4)])]
    assert whole[0].startswith("All 4 items of b ")
    assert "--resplit" in whole[0] and not whole[1].startswith("Leave out")
    assert not [one for one in recommend([_leaked(3)]) if "would be empty" in one["sentence"]]
