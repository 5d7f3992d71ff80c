"""axe-core on a page in a real browser."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

PACKAGE = importlib.util.find_spec("axe_playwright_python")


@functools.cache
def _page(browser: Any) -> Any:
    """One for all: a new one takes longer than looking at most pages. The pages' own policy would refuse a
    script that is not theirs."""
    return browser.new_context(bypass_csp=True).new_page()


def violations(browser: Any, url: str, ready: str, scheme: str, width: int = 1200) -> list[str]:
    """What axe complains of once the selector ``ready`` is there, one line per node."""
    assert PACKAGE is not None and PACKAGE.origin is not None
    axe = Path(PACKAGE.origin).with_name("axe.min.js").read_text()
    page = _page(browser)
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector(ready)
    page.evaluate(axe)
    # Every rule is run on every node; what passed is not described node by node.
    run = "axe.run({resultTypes: ['violations']}).then(result => result.violations)"
    found = page.evaluate(run)
    page.goto("about:blank")  # what comes next may differ by its anchor alone
    page.context.clear_cookies()
    return [f"{entry['id']}: {node['html'][:200]}" for entry in found for node in entry["nodes"]]
