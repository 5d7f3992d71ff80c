"""The pages of docs/measured are what their stored data says."""

from __future__ import annotations

from pathlib import Path

import pytest

import measured

# Ranking all detectors again takes twenty seconds: test_conform.py compares rows of that page.
LIGHT = [name for name in measured.PAGES if name != "leaderboard"]


def test_every_page_is_what_its_data_says() -> None:
    assert measured.main([*LIGHT, "--check"]) == 0


def test_a_page_that_somebody_edited_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    assert measured.main(["rates"]) == 0 and measured.main(["rates", "--check"]) == 0
    page = tmp_path / "rates.md"
    page.write_text(page.read_text() + "by hand\n")
    assert measured.main(["rates", "--check"]) == 1
    assert "rates" in capsys.readouterr().out
