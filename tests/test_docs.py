"""The documentation builds as a site, and no link on its pages leads nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accessibility import PACKAGE, violations

pytest.importorskip("material", reason="the site needs mkdocs-material")
ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert built.returncode == 0, built.stderr  # --strict: a warning about a link is an error
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = (str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))
    assert [page for page in pages if f": {page}" not in navigation] == []
    assert (site / "index.html").is_file()


@pytest.mark.skipif(
    PACKAGE is None or CHROMIUM is None, reason="no Chromium or no axe-playwright-python"
)
def test_a_page_has_no_violation_of_accessibility(site: Path, browser: Any) -> None:
    """With code, tables, links and pictures, in the scheme and width that broke most often."""
    assert violations(browser, (site / "leaks-found.html").as_uri(), "main", "dark", 390) == []


def test_the_reference_of_the_command_line_names_every_verb(site: Path) -> None:
    import typer

    from heldout.cli.app import app

    command = typer.main.get_command(app)
    names = command.list_commands(typer.Context(command))
    page = (site / "cli.html").read_text()
    assert len(names) > 15 and all(f"heldout {name}" in page for name in names)


def test_the_reference_of_settings_has_their_help(site: Path) -> None:
    assert "reply in tokens" in (site / "api.html").read_text()
