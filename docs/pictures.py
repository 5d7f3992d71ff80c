"""The pictures of the documentation that show the product, made anew from runs:

    heldout demo --out heldout-demo
    python docs/pictures.py heldout-demo                                # report.png, desk.png, demo-twins.svg
    python docs/pictures.py --leaks runs/rad docs/figures/leak-rad-med.png

``--leaks`` is the row of leaked pairs on the first screen of one run: runs/rad as on the page, leak-radsplit.png and
leak-slake.png from ``heldout overlap`` of the same pairs of splits. Needs playwright and Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import heldout

FIGURES = Path(__file__).parent / "figures"


@contextlib.contextmanager
def browser_page(width: int, height: int) -> Iterator[Page]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        browser.close()


def save(picture: bytes, path: Path) -> None:
    """With 256 colours: a third of the size, and no difference to see."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256).save(path, optimize=True)


def of_demo(demo: Path) -> None:
    run = demo / "audit/scenes"
    with browser_page(1280, 900) as page:
        page.goto((demo / "audit/report.html").resolve().as_uri())
        # The first screen ends where the steps end.
        last = page.locator(".todo > ol").bounding_box()
        assert last is not None
        below = round(last["y"] + last["height"]) + 24
        page.set_viewport_size({"width": 1280, "height": below})
        save(page.screenshot(), FIGURES / "report.png")
    with (
        tempfile.TemporaryDirectory() as folder,
        heldout.review(run, rater="ada", kind="matches", out=folder) as review,
        browser_page(1280, 800) as page,
    ):
        page.goto(review.url)
        page.wait_for_selector("body[data-shown]")
        save(page.screenshot(), FIGURES / "desk.png")
    shutil.copy(run / "figures/margins-twin.svg", FIGURES / "demo-twins.svg")


def of_leaks(run: Path, out: Path) -> None:
    with browser_page(862, 900) as page:
        page.goto((run / "report.html").resolve().as_uri())
        save(page.locator(".trio").screenshot(), out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path, nargs="?", help="what heldout demo wrote")
    parser.add_argument("--leaks", type=Path, nargs=2, metavar=("RUN", "PNG"))
    chosen = parser.parse_args()
    if chosen.demo is not None:
        of_demo(chosen.demo)
    if chosen.leaks is not None:
        of_leaks(*chosen.leaks)


if __name__ == "__main__":
    main()
