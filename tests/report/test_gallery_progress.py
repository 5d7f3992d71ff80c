"""A large gallery says how far it is, on standard error, and nothing when it is told to be quiet."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import made_up_run

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
