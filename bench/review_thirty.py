"""How long the desk itself takes for thirty pairs: a real browser judges them by keyboard, as fast as they appear.

    python bench/review_thirty.py RUN [--pairs 30]

A person looks and thinks; what is printed is the rest: reading, drawing and saving. No judgement lands in RUN.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import tempfile
import time

from playwright.sync_api import expect, sync_playwright

import heldout

BUDGET = 360.0  # seconds for thirty pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--pairs", type=int, default=30)
    chosen = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as folder,
        heldout.review(
            chosen.run, rater="bench", kind="matches", sample=chosen.pairs, out=folder
        ) as review,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 820})
        begun = time.perf_counter()
        page.goto(review.url)
        page.wait_for_selector("body[data-shown]")
        opened = time.perf_counter() - begun
        seconds = []
        for place in range(len(review.desks[0].cards)):
            start = time.perf_counter()
            # looked at in three ways, then judged
            for key in ("d", "b", "s", str(1 + place % 6)):
                page.keyboard.press(key)
            expect(page.locator("#count")).to_have_text(re.compile(f"^{place + 1} of"))
            if place + 1 < len(review.desks[0].cards):
                page.wait_for_selector("body[data-shown]")
            seconds.append(time.perf_counter() - start)
        browser.close()
        judged = len(review.judgements)
    total = opened + sum(seconds)
    left = (BUDGET - total) / max(judged, 1)
    print(
        f"{judged} pairs judged by keyboard; the desk took {total:.1f} s: {opened:.1f} s to open,"
    )
    print(f"{statistics.median(seconds):.2f} s a pair (median; at most {max(seconds):.2f} s).")
    print(f"Within {BUDGET:.0f} s a person has {left:.1f} s to look at each.")


if __name__ == "__main__":
    main()
