"""docs/synth.md names every setting, stage and criterion."""

from __future__ import annotations

import re
from pathlib import Path

from heldout.model import ModelEndpoint
from heldout.synth import SynthSettings, SynthStage
from heldout.synth.publish import SCHEMA
from heldout.synth.rubric import CRITERIA

PAGE = (Path(__file__).parents[2] / "docs/synth.md").read_text()


def test_every_setting_is_documented() -> None:
    for name in (*SynthSettings.model_fields, *ModelEndpoint.model_fields):
        assert f"`{name}`" in PAGE, name


def test_every_stage_and_field_is_documented() -> None:
    for stage in SynthStage:
        assert f"| `{stage}` |" in PAGE
    for field in SCHEMA.names:
        assert field in PAGE


def test_the_rubric_is_the_one_of_the_code() -> None:
    rows = re.findall(
        r"^\| ([^|:(]+?)(?:[:(][^|]*)? \| (essential|bonus|penalty) \| ([−\d]+) \|", PAGE, re.M
    )
    told = {
        (name.strip().lower(), kind, int(weight.replace("−", "-"))) for name, kind, weight in rows
    }
    assert told == {(one.title.lower(), str(one.category), one.weight) for one in CRITERIA}
