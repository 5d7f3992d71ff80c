"""The gallery in a real browser: ten thousand matches, pages, filters, keys, hostile words, no scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_run import RELATIONS, made_up_run

from heldout.audit import conclude
from heldout.report._gallery import PER_PAGE

sync_api = pytest.importorskip("playwright.sync_api", reason="drives a browser")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
PAIRS = 2_000
CARDS = "#gallery-cards > article"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conclude(made_up_run(tmp_path_factory.mktemp("large") / "run", PAIRS)).report


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.on("console", lambda line: opened.errors.append(line.text))
    opened.goto(report.as_uri())
    yield opened
    assert opened.errors == []
    opened.close()


def shows(page: Any, words: str) -> None:
    """A page is unpacked on demand: wait until it is there."""
    sync_api.expect(page.locator("#gallery-place")).to_have_text(words)


def first_card(page: Any) -> str:
    return str(page.locator(CARDS).first.inner_text())


def test_thousands_of_matches_stand_on_few_nodes(page: Any, report: Path) -> None:
    assert page.locator(CARDS).count() == PER_PAGE
    shows(page, "1–24 of 2,000")
    paper = page.locator("#gallery-paper")  # where no page can be turned
    assert paper.is_hidden()
    page.emulate_media(media="print")
    assert paper.inner_text().startswith("24 of 2,000 pairs") and paper.is_visible()
    page.emulate_media(media="screen")
    nodes = page.evaluate("document.querySelectorAll('*:not(script)').length")
    blocks = page.evaluate("document.querySelectorAll('script[id^=gallery-]').length")
    assert blocks == 1 + -(-PAIRS // PER_PAGE)
    assert nodes < 2_000  # what is laid out does not grow with the matches
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing sticks out
    assert report.stat().st_size < 20_000_000


def test_pages_turn_by_button_and_by_key_and_pictures_follow(page: Any) -> None:
    first = first_card(page)
    page.click("#gallery-next")
    shows(page, "25–48 of 2,000")
    assert first_card(page) != first
    page.keyboard.press("ArrowRight")
    shows(page, "49–72 of 2,000")
    page.keyboard.press("ArrowLeft")
    shows(page, "25–48 of 2,000")
    page.keyboard.press("ArrowLeft")
    shows(page, "1–24 of 2,000")
    assert first_card(page) == first
    page.keyboard.press("ArrowLeft")
    shows(page, "1–24 of 2,000")
    # Every picture that is shown, in a card or on the first screen, is on the page, and no other.
    used, first, there = page.evaluate(
        """() => {
            const all = (what) => [...document.querySelectorAll(what)];
            const named = (what) => all(what).map(u => u.getAttribute('href').slice(1));
            return [named('#gallery-cards use'), named('.shown use'),
                    all('#gallery-pictures image').map(i => i.id)];
        }"""
    )
    assert len(set(used)) == 2 * PER_PAGE and first
    assert set(used) | set(first) == set(there)


def test_commands_are_copied_by_a_button_that_scripts_add(browser: Any, report: Path) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(report.as_uri())
    command = page.locator(".command").first
    assert command.locator("code").inner_text().startswith("heldout sanitize made-up --run ")
    command.locator("button").click()
    sync_api.expect(command.locator("button")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == command.locator("code").inner_text()
    context.close()


def test_nothing_sticks_out_and_every_status_has_its_meaning(page: Any) -> None:
    for width in (390, 800, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    titles = page.locator("abbr.pill").evaluate_all("all => all.map(one => one.title)")
    assert titles and all(titles)


def test_filters_choose_across_blocks(page: Any) -> None:
    page.select_option("select[aria-label=relation]", label=f"undecided ({PAIRS // 4:,})")
    shows(page, "1–24 of 500")
    assert page.locator(f"{CARDS} .tag:text-is('undecided')").count() == PER_PAGE
    page.select_option("select[aria-label=corpus]", label="books (1,000)")
    # Relations go round in four and corpora in two: what is undecided is all in one corpus.
    chosen = {n % 2 for n in range(PAIRS) if RELATIONS[n % 4] == "undecided"}
    assert chosen == {0}
    shows(page, "none")
    page.select_option("select[aria-label=relation]", label="all")
    shows(page, "1–24 of 1,000")


def test_hostile_words_stay_words_when_a_block_is_shown(page: Any) -> None:
    page.select_option("select[aria-label=relation]", label=f"undecided ({PAIRS // 4:,})")
    shows(page, "1–24 of 500")
    assert "onerror=" in page.inner_text("#gallery-cards")
    assert page.locator("#gallery-cards img").count() == 0
    assert page.title().startswith("Is made-up ")


def test_without_scripts_the_first_page_is_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator(CARDS).count() == PER_PAGE
    assert page.locator("#gallery-bar").is_hidden()
    assert "first 24 of 2,000;" in page.inner_text("#gallery")
    # Commands can be read and selected, and no button is there that would do nothing.
    assert page.locator(".command code").first.is_visible()
    assert page.locator(".command button").count() == 0
    context.close()


def test_the_corpus_picture_is_laid_on_the_benchmark_picture(browser: Any, tmp_path: Path) -> None:
    """The made-up warp mirrors: laid on it, the corpus picture looks another way than as found."""
    report = conclude(made_up_run(tmp_path / "run", 4)).report
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(report.as_uri())
    panels = page.locator(f"{CARDS} >> nth=0").locator("svg")
    assert panels.count() == 4
    assert "matrix(-1 0 0 1 64 0)" in panels.nth(2).inner_html()
    mirrored = panels.nth(2).screenshot()
    assert mirrored != panels.nth(1).screenshot()
    page.close()


def test_paper_gets_the_colours_of_paper_also_from_a_dark_screen(page: Any) -> None:
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--survives')"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(colour) == light
