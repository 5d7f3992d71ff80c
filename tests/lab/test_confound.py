from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from heldout.errors import InputError
from heldout.lab.confound import study_confound, write_confound
from heldout.lab.settings import ConfoundSettings


def test_defaults_are_the_published_simulation_number_by_number(shared_data: Path) -> None:
    golden = json.loads((shared_data.parent / "golden/medvlm/confound_simulation.json").read_text())
    found = study_confound()
    for row, published in zip(found.rows, golden["parity"]["rows"], strict=True):
        assert row.gain == published["gain"]
        assert row.delta_max == pytest.approx(published["delta_max"], rel=1e-12)
        assert row.tail_rate == published["pr_delta_gt_100"]
        assert row.flagged == published["flagged"]
    for point, published in zip(found.sweep, golden["composition"]["sweep"], strict=True):
        assert point.flag_probability == published["false_positive_flag_prob"]
        assert point.tail_rate == pytest.approx(published["mean_pr_delta_gt_100"], abs=0.005)


def test_clean_high_gain_models_are_flagged_and_a_homogeneous_cohort_is_not() -> None:
    found = study_confound(ConfoundSettings(repeats=5))
    assert [row.flagged for row in found.rows] == [False, False, True, True, True]
    assert found.rows[4].tail_rate == pytest.approx(0.307, abs=0.001)
    assert found.rows[4].delta_max == pytest.approx(3.42e3, rel=0.001)
    assert [point.flag_probability for point in found.sweep] == [0, 0, 1, 1, 1]
    even = study_confound(ConfoundSettings(gains=(1.0, 1.0, 1.0), repeats=1))
    assert not any(row.flagged for row in even.rows)


def test_offsets_and_another_seed_change_the_draw() -> None:
    plain = study_confound(ConfoundSettings(repeats=1))
    lifted = study_confound(ConfoundSettings(offsets=(0, 0, 0, 0, 500.0), repeats=1))
    assert lifted.rows[4].delta_max == pytest.approx(plain.rows[4].delta_max + 500.0)
    assert study_confound(ConfoundSettings(seed=1, repeats=1)) != plain
    assert study_confound(ConfoundSettings(repeats=1)) == plain


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"closed": 2000}, "closed: "),
        ({"gains": (1.0, 1.0)}, "gains: "),
        ({"offsets": (1.0,)}, "offsets: "),
        ({"repeats": 0}, "repeats: "),
    ],
)
def test_impossible_constants_get_a_sentence(changed: dict[str, object], setting: str) -> None:
    with pytest.raises(InputError) as caught:
        ConfoundSettings.read(changed)
    assert str(caught.value).startswith(setting)


def test_the_page_has_its_numbers_and_two_readable_figures(tmp_path: Path) -> None:
    result = study_confound(ConfoundSettings(repeats=2))
    paths = write_confound(result, tmp_path / "out", "heldout lab confound")
    page = paths[0].read_text()
    assert "| 5 | 1 | 3,422.3 | 0.3073 | **flagged** |" in page
    assert json.loads(paths[1].read_text())["cohort"][4]["flagged"] is True
    for path in paths[2:]:
        words = " ".join(ElementTree.parse(path).getroot().itertext())
        assert "Δ" in words or "clean probe" in words
    with pytest.raises(InputError, match="is a file"):
        write_confound(result, paths[0], "x")
