"""axe-core finds nothing to complain of: contrast, names of controls, order of headings, tables, landmarks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from made_up_run import made_up_run

from accessibility import PACKAGE, violations
from heldout.audit import conclude
from heldout.report import ReportSettings, _gallery, _item_table

sync_api = pytest.importorskip("playwright.sync_api", reason="drives a browser")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(PACKAGE is None, reason="no axe-playwright-python"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = made_up_run(tmp_path_factory.mktemp("axe") / "run", 12)
    with pytest.MonkeyPatch.context() as patch:
        # More than a page of the gallery and of the table, each with every kind of card and row: axe takes
        # seconds where there are many of a kind.
        patch.setattr(_gallery, "PER_PAGE", 8)
        patch.setattr(_item_table, "FIRST", 8)
        conclude(made, settings=ReportSettings(summary=True))
    return made.path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
@pytest.mark.parametrize(
    ("page", "ready"),
    [
        ("report.html", "#items-bar:not([hidden])"),
        ("report.html#item=q0", "dialog[open]"),
        ("summary.html", ".summary"),
    ],
)
def test_pages_have_no_violation(
    browser: Any, run: Path, page: str, ready: str, scheme: str, width: int
) -> None:
    name, _, place = page.partition("#")
    url = (run / name).as_uri() + (f"#{place}" if place else "")
    assert violations(browser, url, ready, scheme, width) == []


def test_the_check_sees_a_violation(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<!doctype html><html><body><main><img src='x.png'></main></body></html>")
    assert any(
        line.startswith("image-alt") for line in violations(browser, page.as_uri(), "main", "light")
    )
