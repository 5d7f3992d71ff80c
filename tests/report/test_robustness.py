"""The radar of what was measured: the published numbers, one's own, and nothing that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import made_up_run

from heldout.audit import conclude
from heldout.errors import InputError
from heldout.report.robustness import ROBUSTNESS_FILE, published
from heldout.store import Run, write_json


def _searched(folder: Path, encoder: str, nearest: int = 5) -> Run:
    run = made_up_run(folder, 4)
    for name, stage in run.manifest()["stages"].items():
        run.update("stages", {name: {**stage, "encoder": encoder, "nearest": nearest}})
    return run


def test_a_run_with_the_measured_encoder_shows_the_published_rates_and_says_on_what(
    tmp_path: Path,
) -> None:
    run = _searched(tmp_path / "run", published().studies[0].encoder, nearest=2)
    html = conclude(run).report.read_text()
    method = html.partition('<section class="robustness">')[2]
    assert (
        "100 pictures of <code>vqa_rad_public</code> (measured once, and part of heldout)" in method
    )
    assert "hidden among 1,270" in method
    assert "histogram equalised 84.0" in method
    assert "the 5 most similar of" in method and "this run at 2" in method
    drawn = (run.path / "figures/robustness-pixels-3.svg").read_text()
    assert "copy: 84.0 %" in drawn and "var(--" not in drawn


def test_another_encoder_has_no_radar_until_somebody_measures_it(tmp_path: Path) -> None:
    run = _searched(tmp_path / "run", "other | 3 pixels")
    method = conclude(run).report.read_text().partition('<section class="robustness">')[2]
    assert "was not measured" in method and "heldout lab transforms" in method
    assert not list((run.path / "figures").glob("robustness*"))


def test_what_the_run_folder_holds_comes_before_what_was_published(tmp_path: Path) -> None:
    run = _searched(tmp_path / "run", published().studies[0].encoder)
    own = published().model_dump(mode="json", exclude_none=True)
    own["studies"][0] |= {"collection": "mine", "queries": 7}
    write_json(run.path / ROBUSTNESS_FILE, own)
    method = conclude(run).report.read_text().partition('<section class="robustness">')[2]
    assert "7 pictures of <code>mine</code>" in method
    assert "not on your data" not in method
    own["studies"][0]["encoder"] = (
        "other | 3 pixels"  # of another search: it says nothing of this one
    )
    write_json(run.path / ROBUSTNESS_FILE, own)
    assert "vqa_rad_public" in conclude(run).report.read_text()


def test_a_measurement_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    run = _searched(tmp_path / "run", published().studies[0].encoder)
    (run.path / ROBUSTNESS_FILE).write_text(json.dumps({"studies": 3}))
    with pytest.raises(InputError, match=r"robustness\.json .*heldout lab transforms"):
        conclude(run)


def test_a_search_by_hashes_alone_shows_what_the_hashes_were_measured_to_find(
    tmp_path: Path,
) -> None:
    run = made_up_run(tmp_path / "run", 4)
    for name, stage in run.manifest()["stages"].items():
        run.update("stages", {name: {**stage, "hashes": True}})
    method = conclude(run).report.read_text().partition('<section class="robustness">')[2]
    assert "No encoder" in method and "frame of 20 px 47.8" in method
    assert (run.path / "figures/robustness-hashes.svg").exists()
