"""A run that has nothing left to do says so, not that it scanned nothing."""

from __future__ import annotations

import io
import time

from heldout.engine import progress
from heldout.overlap.images.scan import CorpusScan, scanned_before


def test_what_an_earlier_run_did_is_said() -> None:
    result = CorpusScan("vm", "vm", "tar", "f")
    assert scanned_before(result) == ""
    result.shards, result.reused = 4, 1
    assert scanned_before(result).startswith("some of it ")
    result.reused = 4
    assert scanned_before(result).startswith("all of it ")


def test_the_last_line_says_what_was_found() -> None:
    result, lines = CorpusScan("vm", "vm", "tar", "f"), io.StringIO()
    with progress(
        "scanning vm",
        None,
        "shards",
        file=lines,
        appears_after=0.0,
        line_every=60,
        note=lambda: scanned_before(result),
    ) as step:
        while not lines.getvalue():
            time.sleep(0.001)
        result.shards = result.reused = 4
        step(4)
    first, *_, last = lines.getvalue().splitlines()
    assert first == "scanning vm: started"
    assert last.startswith("scanning vm: all of it ")
