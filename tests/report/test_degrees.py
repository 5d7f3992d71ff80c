from __future__ import annotations

from pathlib import Path

import polars as pl
from made_up_run import made_up_run

from heldout.audit import conclude
from heldout.report._nearness import degree_figures
from heldout.store import Run


def frames(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    items, matches = (pl.from_arrow(run.read_table(name)) for name in ("items", "matches"))
    assert isinstance(items, pl.DataFrame) and isinstance(matches, pl.DataFrame)
    return items, matches


def test_two_corpora_and_an_encoder_make_heat_maps(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", 8)
    assert degree_figures(run, *frames(run)) == []  # equal pictures only: nothing to draw
    for name, stage in run.manifest()["stages"].items():
        run.update("stages", {name: {**stage, "encoder": "pixels-2 | made up"}})
    found = {figure.name: str(figure.drawn) for figure in degree_figures(run, *frames(run))}
    assert list(found) == ["degrees-copy", "degrees-hard", "degrees-soft"]
    # Of eight pictures, every second is in each corpus; of those in web, every second is a copy.
    assert "web × made-up: 25.0 %" in found["degrees-copy"]
    assert "books × made-up: 25.0 %" in found["degrees-copy"]
    assert "web × made-up: 50.0 %" in found["degrees-hard"]
    assert "web × made-up: 0<" in found["degrees-soft"]


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", 2)
    stale = run.path / "figures/nearness-9-sweep.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    conclude(run)
    assert not stale.exists()
