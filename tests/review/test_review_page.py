"""The review page in a real browser: judged by keyboard, killed, blinded, attacked."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heldout.store.judgements import ITEM, MATCH, TWIN, Judgement, append, current, history

Serving = Callable[..., str]


def ready(page: Any, url: str) -> None:
    page.goto(url)
    shown(page)


def shown(page: Any) -> None:
    page.wait_for_selector("body[data-shown]")


def begins(page: Any, where: str, text: str) -> None:
    """Wait until it does (by the browser's own eyes: the page's policy forbids evaluating strings)."""
    from playwright.sync_api import expect

    expect(page.locator(where)).to_have_text(re.compile("^" + re.escape(text)))


def judged(page: Any, count: int) -> None:
    begins(page, "#count", f"{count} of")
    shown(page)


def verdicts(run: Path) -> list[str | None]:
    return [one.verdict for one in history(run)]


def test_verdicts_by_keyboard_are_on_disk_and_survive_a_reload(
    run: Path, serving: Serving, page: Any
) -> None:
    ready(page, serving(run))
    assert "token" not in page.url  # traded for a cookie: nothing to leak by copying the address
    page.keyboard.press("1")
    judged(page, 1)
    page.keyboard.press("n")
    page.keyboard.type("the mirror gives it away")
    page.keyboard.press("Enter")
    page.keyboard.press("2")
    judged(page, 2)
    assert verdicts(run) == ["exact duplicate", "transformed copy"]
    assert [one.note for one in history(run)] == ["", "the mirror gives it away"]
    page.reload()
    shown(page)
    judged(page, 2)
    assert page.inner_text("#place").startswith("3 /")  # where the work goes on
    page.keyboard.press("k")
    begins(page, "#place", "2 /")
    pressed = page.locator("#buttons [aria-pressed=true]")
    assert pressed.get_attribute("data-verdict") == "transformed copy"
    assert page.input_value("#note") == "the mirror gives it away"


def test_undo_takes_back_and_returns(run: Path, serving: Serving, page: Any) -> None:
    ready(page, serving(run))
    first = page.inner_text("#words")
    page.keyboard.press("5")
    judged(page, 1)
    begins(page, "#place", "2 /")
    page.keyboard.press("u")
    judged(page, 0)
    begins(page, "#place", "1 /")
    assert page.inner_text("#words") == first
    assert current(run, MATCH) == {}
    assert verdicts(run) == ["unrelated", None]  # taken back, not rubbed out
    page.keyboard.press("u")
    begins(page, "#spoken", "There is nothing to undo")


def test_kill_nine_loses_nothing(run: Path, process: Callable[..., Any], page: Any) -> None:
    server, url = process(run, "--rater", "ada")
    ready(page, url)
    page.keyboard.press("1")
    judged(page, 1)
    page.keyboard.press("6")
    judged(page, 2)
    server.send_signal(signal.SIGKILL)
    server.wait()
    page.keyboard.press("3")
    page.wait_for_selector("#alert:not([hidden])")
    assert "Not saved" in page.inner_text("#alert")
    assert "2 of" in page.inner_text("#count")  # the page claims nothing that is not on disk
    assert verdicts(run) == ["exact duplicate", "unsure"]
    _, again = process(run, "--rater", "ada")
    ready(page, again)
    judged(page, 2)
    assert page.inner_text("#place").startswith("3 /")


def test_a_blinded_rater_sees_neither_tool_nor_others(
    run: Path, serving: Serving, page: Any
) -> None:
    ready(page, serving(run, "zelda"))
    assert "THE TOOL SAYS" in page.inner_text("#words").upper()
    page.keyboard.press("n")
    page.keyboard.type("zelda was here")
    page.keyboard.press("Enter")
    page.keyboard.press("1")
    judged(page, 1)
    ready(page, serving(run, "bo", blind=True))
    assert page.inner_text("#count").startswith("0 of")
    assert page.locator("#agreement-open").is_hidden()
    for place in range(2, 9):
        words = page.inner_text("body")
        assert "zelda" not in words
        assert "tool says" not in words.lower()
        page.keyboard.press("j")
        begins(page, "#place", f"{place} /")
        shown(page)
    page.keyboard.press("2")
    judged(page, 1)
    assert {rater for _, rater in current(run, MATCH)} == {"zelda", "bo"}


def test_two_tabs_do_not_overwrite_each_other(run: Path, serving: Serving, page: Any) -> None:
    url = serving(run)
    ready(page, url)
    other = page.context.new_page()
    ready(other, url)
    page.keyboard.press("1")
    judged(page, 1)
    other.keyboard.press("5")
    other.wait_for_selector("#alert:not([hidden])")
    assert "another tab" in other.inner_text("#alert")
    assert verdicts(run) == ["exact duplicate"]
    assert other.inner_text("#place").startswith("1 /")  # still there, to decide again
    other.keyboard.press("5")
    begins(other, "#place", "2 /")
    assert verdicts(run) == ["exact duplicate", "unrelated"]
    page.keyboard.press("2")  # the first tab goes on with the next card
    judged(page, 2)
    assert len(current(run, MATCH)) == 2


def test_text_of_strangers_stays_text(hostile_run: Path, serving: Serving, page: Any) -> None:
    for kind in ("matches", "items"):
        ready(page, serving(hostile_run, kind=kind))
        page.wait_for_timeout(100)
        assert page.evaluate("window.hacked") is None
        text = page.inner_text("body")
        assert "<img src=x onerror=window.hacked=1>" in text
        assert "[U+202E]" in text  # a mark that would turn the line round
        assert page.locator("#words img, #words script, #words b").count() == 0
    assert page.locator("#stage img").count() == 1  # the item's own picture, found by its digest


def test_scripts_from_elsewhere_do_not_run(run: Path, serving: Serving, page: Any) -> None:
    ready(page, serving(run))
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        "{textContent: 'window.hacked = 1'}))"
    )
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None


def test_another_site_cannot_read_or_judge(run: Path, serving: Serving, page: Any) -> None:
    url = serving(run)
    ready(page, url)
    origin = url.partition("/?")[0]
    evil = page.context.new_page()  # same browser, same cookies, another origin
    evil.route("http://evil.test/", lambda route: route.fulfill(body="<h1>evil</h1>"))
    evil.goto("http://evil.test/")
    read = f"fetch('{origin}/api/session', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
    assert evil.evaluate(read) == "refused"
    evil.evaluate(
        f"fetch('{origin}/api/cards/0/judgement', {{method: 'POST', mode: 'no-cors', "
        "credentials: 'include', body: JSON.stringify({verdict: 'unrelated'})}).catch(() => 0)"
    )
    assert verdicts(run) == []


def test_overlays_lay_the_neighbour_on_the_query(run: Path, serving: Serving, page: Any) -> None:
    ready(page, serving(run))
    place = 1
    while "flipped horizontally" not in page.inner_text("#words"):
        place += 1
        page.keyboard.press("j")
        begins(page, "#place", f"{place} /")
        shown(page)
    page.keyboard.press("d")
    dark = _brightness(page)
    assert dark < 12  # mirrored back, the two pictures cancel out
    page.keyboard.press("b")
    page.keyboard.press(" ")  # by hand from now on
    caption = page.inner_text(".pane figcaption")
    page.keyboard.press(" ")
    assert page.inner_text(".pane figcaption") != caption
    page.keyboard.press("w")
    page.keyboard.press("]")
    assert page.input_value("#swipe") == "55"
    # Right of the line stands the neighbour alone, left of it the query.
    clips = page.eval_on_selector_all(".layer", "all => all.map(one => one.style.clipPath)")
    assert clips == ["inset(0px 45% 0px 0px)", "inset(0px 0px 0px 55%)"]
    page.keyboard.press("s")
    page.keyboard.press("+")
    scales = page.eval_on_selector_all(".world", "all => all.map(one => one.style.transform)")
    assert len(scales) == 2
    assert scales[0] == scales[1]  # in step
    assert page.inner_text("#zoom") == "140 %"


def _brightness(page: Any) -> float:
    """Mean over the middle of the stage, as the screen shows it."""
    import io

    import numpy as np
    from PIL import Image

    shot = Image.open(io.BytesIO(page.locator(".pane").screenshot())).convert("L")
    width, height = shot.size
    middle = shot.crop((width * 2 // 5, height // 5, width * 3 // 5, height * 4 // 5))
    return float(np.asarray(middle).mean())


def test_items_are_rated_on_four_scales(run: Path, serving: Serving, page: Any) -> None:
    ready(page, serving(run, kind="items"))
    for key in "43x2":
        page.keyboard.press(key)
    page.reload()  # ratings before the verdict are drafts of this tab
    shown(page)
    page.keyboard.press("a")
    judged(page, 1)
    (said,) = current(run, ITEM).values()
    assert said.verdict == "accept"
    assert dict(said.ratings) == {"correctness": 4, "clarity": 3, "options": 2}
    begins(page, "#place", "2 /")
    assert (
        page.locator("#scales [aria-pressed=true]").count() == 0
    )  # of the next nothing is said yet
    page.keyboard.press("k")
    begins(page, "#place", "1 /")
    shown(page)
    pressed = page.locator("#scales [aria-pressed=true]").evaluate_all(
        "all => all.map(one => one.dataset.value)"
    )
    assert pressed == ["4", "3", "na", "2"]  # not applicable is something that was said
    page.keyboard.press("j")
    begins(page, "#place", "2 /")
    shown(page)
    page.keyboard.press("r")
    judged(page, 2)
    page.click("#agreement-open")
    page.wait_for_selector("#agreement table")
    assert "1 / 2 (50 %" in page.inner_text("#agreement")
    assert page.evaluate("document.getElementById('agreement').scrollTop") == 0


def test_twins_are_kept_or_rejected(twins_run: Path, serving: Serving, page: Any) -> None:
    ready(page, serving(twins_run, kind="twins"))
    assert page.locator("#stage .pane").count() == 3
    assert page.locator("#stage img").count() == 3
    text = page.inner_text("#words")
    assert "red" in text
    assert "blue" in text
    page.keyboard.press("1")
    judged(page, 1)
    page.keyboard.press("2")
    judged(page, 2)
    said = {one.subject: one.verdict for one in current(twins_run, TWIN).values()}
    assert said == {"t0": "keep", "t1": "reject"}
    # The last one names a file outside the run: said, not shown.
    begins(page, "#place", "3 /")
    page.wait_for_selector(".gone")
    assert "the run folder" in page.inner_text("#stage")


def test_agreement_of_two_on_the_page(run: Path, serving: Serving, page: Any) -> None:
    from heldout.review import open_desks

    cards = open_desks(str(run), rater="ada")[0].cards
    for place, card in enumerate(cards):
        append(
            run, Judgement("ada", MATCH, card.subject, "exact duplicate" if place % 2 else "unsure")
        )
        append(
            run, Judgement("bo", MATCH, card.subject, "exact duplicate" if place > 2 else "unsure")
        )
    ready(page, serving(run))
    assert "bo: " in page.inner_text("#words")
    page.click("#agreement-open")
    page.wait_for_selector("#agreement table")
    text = page.inner_text("#agreement")
    assert "Cohen's kappa" in text
    assert re.search(r"verdict\s+Cohen's kappa\s+0\.\d\d", text)


def test_the_phone_shows_both_pictures_and_all_verdicts(
    run: Path, serving: Serving, page: Any
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    ready(page, serving(run))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    footer = page.locator("#verdicts").bounding_box()
    for pane in page.locator(".pane").all():
        box = pane.bounding_box()
        assert box["y"] + box["height"] <= footer["y"] + 1
    assert page.locator("#buttons button").count() == 6
