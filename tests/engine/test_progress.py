"""Progress: a bar for people, a rare line for logs, nothing for short work and scripts."""

from __future__ import annotations

import functools
import io
import os
import pty
import re
import subprocess
import sys
import time

import engine_tasks
import pytest
from rich.console import Console

from heldout.engine import LocalEngine
from heldout.engine.progress import Progress, progress
from heldout.engine.underway import listening

LINE = re.compile(r"scanning corpus: 30 % · 12 items · [\d.,e+]+ items/s · \d+:\d\d left")


def test_short_work_says_nothing() -> None:
    file = io.StringIO()
    with progress("scanning corpus", total=10, unit="shards", file=file) as step:
        step(1, items=4)
    assert file.getvalue() == ""


def test_work_that_takes_longer_says_how_far_it_is_without_waiting_for_a_step() -> None:
    file = io.StringIO()
    with progress("scanning corpus", 10, "shards", file=file, appears_after=0.05) as step:
        for _ in range(3):
            step(1, items=4)
        wait_for_output(file)
        time.sleep(0.2)  # a second line is due only after ten seconds
    assert LINE.fullmatch(file.getvalue().strip())


def test_lines_come_again_after_their_interval() -> None:
    file = io.StringIO()
    with progress("reading", file=file, appears_after=0.0, line_every=0.02) as step:
        wait_for_output(file, lines=2)
        step()
        wait_for_output(file, lines=file.getvalue().count("\n") + 2)
    lines = file.getvalue().splitlines()
    assert lines[0] == "reading: 0 items"
    assert lines[-1].startswith("reading: 1 items · ")


def test_a_notebook_gets_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = functools.partial(Console, force_jupyter=True)
    monkeypatch.setattr(sys.modules["heldout.engine.progress"], "Console", notebook)
    file = io.StringIO()
    with progress("reading", 9, file=file, appears_after=0.0) as step:
        step(3)
        while "reading: 3/9" not in file.getvalue():
            time.sleep(0.02)
    assert "\n" not in file.getvalue()
    assert file.getvalue().startswith("\rreading: ") and file.getvalue().endswith(" \r")


def test_disabled_progress_counts_and_says_nothing() -> None:
    file = io.StringIO()
    with progress("reading", file=file, appears_after=0.0, disabled=True) as step:
        step(5)
        time.sleep(0.1)
    assert file.getvalue() == ""


def test_an_error_in_the_work_passes_through() -> None:
    with pytest.raises(KeyError), progress("reading", file=io.StringIO(), appears_after=0.0):
        raise KeyError("x")


def test_earlier_work_counts_but_not_towards_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    work = Progress("scanning", 1000, "pictures", done=800)
    assert work.describe() == "800/1,000 pictures"
    now += 10.0
    work.step(50)
    assert work.describe() == "850/1,000 pictures · 5 pictures/s · 0:30 left"
    work.step(150)
    assert work.describe() == "1,000/1,000 pictures · 20 pictures/s"


def test_time_left_is_read_off_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    work = Progress("scanning", 1001, "shards")
    now += 10.0
    work.step(1)
    assert work.describe() == "0 % · 2:46:40 left"
    monkeypatch.setenv("HELDOUT_PRICE", "44.80")  # 64 machines at 70 cents
    assert work.describe().endswith("2:46:40 left · $0.12 of $124.57")


@pytest.mark.parametrize(("terminal", "bar"), [("xterm", True), ("dumb", False)])
def test_a_terminal_gets_a_bar_on_standard_error_only(terminal: str, bar: bool) -> None:
    code = (
        "import time\n"
        "from heldout.engine import progress\n"
        "with progress('scanning [corpus]', 10, 'shards', appears_after=0.1) as step:\n"
        "    with progress('inner', appears_after=0.15):\n"
        "        step(4, items=9)\n"
        "        time.sleep(0.8)\n"
    )
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": terminal, "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        timeout=60,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0
    assert done.stdout == b""
    assert "scanning [corpus]" in shown
    assert "40 % · 9 items" in shown
    assert ("━" in shown) is bar
    assert ("inner" in shown) is not bar  # bars do not write over each other; lines may follow


@pytest.mark.parametrize("workers", [1, 2])
def test_a_shard_that_takes_long_says_how_far_it_is(workers: int) -> None:
    heard: list[tuple[str, int]] = []
    with LocalEngine(workers) as engine, listening(lambda *moved: heard.append(moved)):
        values = [outcome.value for outcome in engine.map(engine_tasks.long_shard, [60, 60])]
    assert values == [60, 60]
    assert {name for name, _ in heard} == {"items"}
    assert len(heard) >= 2 and sum(count for _, count in heard) <= 120


def test_items_of_shards_that_have_not_ended_count_once() -> None:
    work = Progress("scanning", 3, "shards")
    work.within("items", 40)
    assert work.describe().startswith("40 items")
    work.step(items=50)  # the shard that the 40 were of
    assert work.describe().startswith("33 % · 50 items")
    work.within("items", 10)
    work.step(items=25)
    assert work.describe().startswith("66 % · 75 items")
    pairs = Progress("verifying", 10, "pairs")
    pairs.within("pairs", 4)
    assert pairs.describe().startswith("4/10 pairs")
    pairs.step(10)
    assert pairs.describe().startswith("10/10 pairs")


def wait_for_output(file: io.StringIO, lines: int = 1) -> None:
    deadline = time.monotonic() + 20
    while file.getvalue().count("\n") < lines:
        assert time.monotonic() < deadline, "nothing was shown"
        time.sleep(0.01)
