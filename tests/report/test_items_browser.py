"""The table of items in a real browser: a hundred thousand rows, hostile words, every part of an open item."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_run import HOSTILE, made_up_run

from heldout.audit import conclude
from heldout.report import ReportSettings
from heldout.report._item_table import FIRST
from heldout.store import ITEM, Judgement, Run, append
from heldout.store.schema import make_table

sync_api = pytest.importorskip("playwright.sync_api", reason="drives a browser")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
MANY, ITEMS = 100_000, 1_000
PAIRS = 40
ROWS = "#items-rows > tr"


def many_items(folder: Path, number: int) -> Run:
    """A few matches, and items without any up to that number; two models answered some."""
    run = made_up_run(folder, PAIRS)
    items = run.read_table("items").to_pylist()
    items += [
        {**items[0], "benchmark_id": f"q{n}", "position": n, "question": f"What is number {n}?"}
        | {"answer": str(n), "cluster": str(n), "image_names": [f"{n}.png"], "image_digests": [""]}
        for n in range(PAIRS, number)
    ]
    run.write_table("items", make_table("items", items))
    answers = [
        {
            "benchmark_id": f"q{n}",
            "model": model,
            "variant": variant,
            "draw": 0,
            "options": [],
            "order": [],
            "gold": str(n),
            "reply": HOSTILE if n == 30 else str(n),
            "parsed": str(n),
            "outcome": "right" if n % 2 else "wrong",
            "rule": "exact match",
            "choice_logprobs": None,
            "prompt_tokens": 1,
            "reply_tokens": 1,
            "template": "none",
        }
        for model in ("alpha", "beta")
        for variant in ("original", "no-image")
        for n in range(PAIRS)
    ]
    run.write_table("answers", make_table("answers", answers))
    append(run.path, Judgement("ada", ITEM, "q30", "accept", note=HOSTILE))
    return run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conclude(many_items(tmp_path_factory.mktemp("many") / "run", ITEMS)).report


@contextlib.contextmanager
def opened(browser: Any, report: Path) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda line: page.errors.append(line.text))
    page.goto(report.as_uri())
    yield page
    assert page.errors == []
    page.close()


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    with opened(browser, report) as page:
        shows(page, f"1–{FIRST} of 1,000")
        yield page


def shows(page: Any, words: str) -> None:
    sync_api.expect(page.locator("#items-place")).to_have_text(words)


def ids(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#items-rows button.open").all_inner_texts()]


def test_a_hundred_thousand_items_stand_on_few_nodes(browser: Any, tmp_path: Path) -> None:
    report = conclude(many_items(tmp_path / "run", MANY)).report
    assert report.stat().st_size < 12_000_000
    with opened(browser, report) as page:
        shows(page, "1–25 of 100,000")
        assert page.locator(ROWS).count() == FIRST
        nodes = page.evaluate("document.querySelectorAll('*:not(script)').length")
        assert nodes < 3_000  # what is laid out does not grow with the items
        page.click("#items-next")
        shows(page, "26–50 of 100,000")
        page.fill("#items-search", "number 99999")
        shows(page, "1–1 of 1")
        assert ids(page) == ["q99999"]
        page.fill("#items-search", "")
        shows(page, "1–25 of 100,000")  # typing is answered a moment later
        page.click("th[data-sort=position] button")
        page.click("th[data-sort=position] button")
        assert ids(page)[:2] == ["q99999", "q99998"]


def test_search_filters_and_order_work_on_all_of_them(page: Any) -> None:
    page.click("#items-next")
    shows(page, "26–50 of 1,000")
    page.click("#items-back")
    shows(page, "1–25 of 1,000")
    # Every second relation of the made-up run is a copy.
    page.select_option("#items-status", value="leaked")
    shows(page, "1–20 of 20")
    assert set(page.locator("#items-rows .found").all_inner_texts()) == {"picture"}
    page.select_option("#items-answers", label="alpha: right")
    shows(page, "1–10 of 10")
    page.select_option("#items-corpus", label="web")
    shows(page, "no such item")  # what lies in web has even numbers, and those were answered wrong
    page.select_option("#items-answers", value="")
    shows(page, "1–10 of 10")
    page.select_option("#items-status", value="")
    page.select_option("#items-corpus", value="")
    page.click("th[data-sort=position] button")
    assert ids(page)[:3] == ["q0", "q1", "q2"]
    page.click("th[data-sort=position] button")
    assert ids(page)[:2] == ["q999", "q998"]
    assert page.get_attribute("th[data-sort=position]", "aria-sort") == "descending"
    page.click("th[data-sort=answer] button")
    assert ids(page)[:3] == ["q0", "q1", "q2"]  # numbers as numbers, not "1, 10, 100"


def test_an_item_opens_with_all_that_is_known_and_hostile_words_stay_words(page: Any) -> None:
    page.fill("#items-search", "q30")
    page.click("#items-rows button.open:text-is('q30')")
    dialog = page.locator("#item")
    sync_api.expect(dialog).to_be_visible()
    words = dialog.inner_text()
    for part in ("Found", "Pictures that match", "Answers", "alpha", "beta", "Judgements", "ada"):
        assert part in words
    assert words.count("onerror=") >= 3  # question, replies, note
    assert dialog.locator("img, script").count() == 0
    assert page.title().startswith("Is made-up ")
    # The card is the gallery's, with pictures of its own.
    used = dialog.locator("use").first.get_attribute("href")
    assert used.startswith("#item-p") and page.locator(used).count() == 1
    assert page.url.endswith("#item=q30")
    # Identifiers on the page stay unique.
    named = page.evaluate("[...document.querySelectorAll('[id]')].map(n => n.id)")
    assert len(named) == len(set(named))


def test_the_keyboard_walks_through_items_and_closes_them(page: Any) -> None:
    page.click("th[data-sort=position] button")
    page.focus("#items-rows button.open >> nth=0")
    page.keyboard.press("Enter")
    title = page.locator("#item-title")
    sync_api.expect(title).to_have_text("q0")
    for _ in range(FIRST):
        page.keyboard.press("ArrowRight")
    sync_api.expect(title).to_have_text("q25")
    page.keyboard.press("ArrowLeft")
    sync_api.expect(title).to_have_text("q24")
    page.keyboard.press("ArrowRight")
    sync_api.expect(title).to_have_text("q25")
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#item")).to_be_hidden()
    shows(page, "26–50 of 1,000")  # the page of the item that was open last, with the focus on it
    assert page.evaluate("document.activeElement.textContent") == "q25"


def test_a_link_opens_an_item(browser: Any, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri() + "#item=q999")
    sync_api.expect(page.locator("#item-title")).to_have_text("q999")
    assert "No match in" in page.inner_text("#item-body")
    page.close()


def test_the_open_item_and_the_table_fit(browser: Any, report: Path) -> None:
    page = browser.new_page()
    for width in (390, 800, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{report.as_uri()}?{width}#item=q1")  # loaded at this width, not made narrower
        sync_api.expect(page.locator("#item")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator("#item").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    page.close()


def test_without_scripts_the_first_rows_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator(ROWS).count() == FIRST
    assert page.locator("#items-bar").is_hidden() and page.locator("#item").is_hidden()
    assert "first 25 of 1,000;" in page.inner_text("#items")
    context.close()


def test_the_setting_bounds_the_table_and_keeps_the_gravest(browser: Any, tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", 40)
    page = browser.new_page()
    page.goto(conclude(run, settings=ReportSettings(items=20)).report.as_uri())
    shows(page, "1–20 of 20")
    assert "20 of 40 items" in page.inner_text("#items")
    assert set(page.locator("#items-rows .found").all_inner_texts()) == {"picture"}
    page.goto(conclude(run, settings=ReportSettings(items=0)).report.as_uri())
    assert page.locator("#items").count() == 0
    page.close()
