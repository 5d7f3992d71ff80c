"""Thirty pairs judged by two raters in a real browser: order, shared sample, blinding, agreement."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from made_up_run import made_up_run
from test_review_page import begins, ready, shown

from command_line import run_inside
from heldout.audit import conclude
from heldout.review import open_desks
from heldout.store.judgements import MATCH, current, history

Serving = Callable[..., str]
PAIRS = 30


def judge(page: Any, url: str, key: Callable[[int], str]) -> list[tuple[str, bool]]:
    """Every card by one key, as fast as the page shows them, the first by mouse; what the page said each time
    of its progress, and whether it said that everything undecided is done."""
    ready(page, url)
    told = [(page.inner_text("#count"), False)]
    for place in range(PAIRS):
        if place:
            page.keyboard.press(key(place))
        else:
            page.click(f"#buttons button >> nth={int(key(place)) - 1}")
        begins(page, "#count", f"{place + 1} of")
        told.append((page.inner_text("#count"), page.locator("#alert.good:visible").count() == 1))
        if place + 1 < PAIRS:
            shown(page)
    return told


def test_thirty_pairs_by_two_raters_of_whom_one_is_blinded(
    tmp_path: Path, serving: Serving, page: Any
) -> None:
    run = made_up_run(tmp_path / "run", 120)
    conclude(run)
    desk = open_desks(str(run.path), rater="ada", sample=PAIRS)[0]
    assert len(desk.cards) == PAIRS
    # undecided pairs first: nobody wades through look-alikes to what was asked for
    told = judge(
        page, serving(run.path, "ada", sample=PAIRS), lambda place: "1" if place % 3 else "4"
    )
    first = [entry.subject for entry in history(run.path)]
    assert len(set(first)) == PAIRS
    relation = {card.subject: card.hint["relation"] for card in desk.cards}
    undecided = [relation[subject] == "undecided" for subject in first]
    asked = sum(undecided)
    assert asked and undecided == sorted(undecided, reverse=True)
    # the page counts down what was asked for, and says once that it is done
    left = [
        int(found[1]) if (found := re.search(r"(\d+) undecided", text)) else 0 for text, _ in told
    ]
    assert left == [max(0, asked - place) for place in range(PAIRS + 1)]
    assert [done for _, done in told].index(True) == asked and sum(done for _, done in told) == 1
    judge(
        page,
        serving(run.path, "bo", sample=PAIRS, blind=True),
        lambda place: "1" if place % 3 or place < 6 else "4",
    )
    by_rater = {
        rater: {subject for subject, name in current(run.path, MATCH) if name == rater}
        for rater in ("ada", "bo")
    }
    assert by_rater["ada"] == by_rater["bo"]  # one sample, so that agreement exists
    assert all(entry.seconds is not None for entry in history(run.path))
    done = run_inside("review", run.path, "--agreement", "--sample", str(PAIRS), "--json")
    assert done.returncode == 0, done.stderr
    printed = json.dumps(json.loads(done.stdout), ensure_ascii=False)
    row = r'"Krippendorff.s alpha", "-?0\.\d\d", "-?\d\.\d\d to \d\.\d\d"'
    assert re.search(row, printed), printed
