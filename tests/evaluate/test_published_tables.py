"""Published accuracies with the intervals they lack: the arithmetic of MedVLSynther's tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heldout.errors import InputError
from heldout.evaluate.published import CLEAR, DEPENDS, NOISE, disagreement, study_published

ROOT = Path(__file__).parents[2]


def test_the_means_are_those_of_the_paper() -> None:
    study = study_published("medvlsynther")
    for name, printed in study.printed.items():
        assert 100 * study.means[name][0] == pytest.approx(printed, abs=0.0101)
    assert study.printed["3B base"] == 49.14
    assert study.printed["7B full"] == 58.15
    half = study.means["3B base"][1]
    values = np.array([44.12, 20.69, 61.96, 44.77, 61.30, 62.01]) / 100
    sizes = np.array([170, 2000, 3362, 2000, 416, 272])
    assert half == pytest.approx(1.959964 * np.sqrt((values * (1 - values) / sizes).sum()) / 6)


def test_readings_of_the_differences() -> None:
    study = study_published("medvlsynther")
    readings = {one.label: one.reading for one in study.differences}
    assert readings["3B verified 5k − 3B base"] == CLEAR
    assert readings["3B verified 5k − 3B rubric"] == NOISE  # what verification adds
    assert readings["7B verified 5k − 7B rubric"] == NOISE
    assert readings["7B rubric − 7B text-image"] == DEPENDS
    assert readings["7B full − 7B RL m23k"] == CLEAR
    assert study.counts() == {CLEAR: 17, DEPENDS: 8, NOISE: 22}
    # Items that share an image, at the largest design effect that was measured, move few of them.
    wider = study_published("medvlsynther", design_effect=1.22).counts()
    assert wider[NOISE] >= 22
    assert sum(wider.values()) == 47


def test_what_the_tables_themselves_show() -> None:
    told = " ".join(study_published("medvlsynther").remarks)
    assert "54.80" in told and "the table has 54.25" in told
    assert "1,999 or 1,997 items" in told and "15 of 39 rows" in told


def test_the_disagreement_lies_between_its_limits() -> None:
    first, second = np.array([0.5, 0.9]), np.array([0.6, 0.2])
    assert disagreement(first, second, 0.0) == pytest.approx([0.1, 0.7])
    assert disagreement(first, second, 1.0) == pytest.approx([0.5, 0.74])


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "title: mine\nbenchmarks: [{name: a, items: 100}]\nrows:\n  old: {values: [50.0], mean: 51.0}\n"
        "  new: {values: [50.555]}\ndifferences: [{first: new, second: old}]\n"
    )
    study = study_published(str(path))
    assert study.differences[0].reading == NOISE
    assert "mean is 51.00" in " ".join(study.remarks)
    assert "nor 3 give 50.55" in " ".join(study.remarks).replace("50.56", "50.55")
    path.write_text(path.read_text().replace("first: new", "first: newer"))
    with pytest.raises(InputError, match="'newer'"):
        study_published(str(path))
    path.write_text("title: x\n")
    with pytest.raises(InputError, match="benchmarks: Field required"):
        study_published(str(path))
    with pytest.raises(InputError, match="tables .*: medvlsynther"):
        study_published("nothing")
