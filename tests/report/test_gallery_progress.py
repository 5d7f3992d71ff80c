"""A large gallery says how far it is, on standard error, and nothing when it is told to be quiet."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import made_up_run

from heldout.audit import conclude
from heldout.engine import progress as shown
from heldout.report import _gallery as gallery


def test_pairs_are_counted_while_the_gallery_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_up_run(tmp_path / "run", 3 * gallery.PER_PAGE)
    monkeypatch.setattr(
        gallery, "progress", lambda *told, **how: shown(*told, appears_after=0.0, **how)
    )
    gallery.make_gallery(run, 48)
    told = capsys.readouterr()
    assert told.out == "" and f"/{3 * gallery.PER_PAGE} pairs" in told.err
    gallery.make_gallery(run, 48, quiet=True)
    assert capsys.readouterr().err == ""


def test_a_page_shows_the_gravest_pairs_and_says_how_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_up_run(tmp_path / "run", 40)
    every = gallery.make_gallery(run, 48, quiet=True)
    assert every.total == every.every == 40
    monkeypatch.setattr(gallery, "MOST", 10)
    few = gallery.make_gallery(run, 48, quiet=True)
    assert (few.total, few.every) == (10, 40)
    assert list(few.choices["relation"]) == ["same image"]  # 10 of the 40, and nothing weaker
    page = conclude(run, quiet=True).report.read_text()
    assert "10 pairs of 40, " in page
