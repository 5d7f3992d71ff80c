"""The table of rules: every row can be reached, every kind ends in a row, no control is nameless."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from heldout.detect import Cell
from heldout.verdict import Claim, Control, required, rules
from heldout.verdict.required import REQUIRED, settled_by
from heldout.verdict.rules import COPIES, KINDS, OF_MODELS, ORDER, RULES, decide


def _facts_of(kind: str) -> list[str]:
    return list(dict.fromkeys(f for rule in RULES if kind in rule.kinds for f in rule.when))


@pytest.mark.parametrize("kind", KINDS)
def test_every_combination_of_facts_is_decided_and_every_row_is_reached(kind: str) -> None:
    names = _facts_of(kind)
    reached = {
        decide(kind, dict(zip(names, held, strict=True))).name
        for held in itertools.product((True, False), repeat=len(names))
    }
    assert reached == {rule.name for rule in RULES if kind in rule.kinds}


@pytest.mark.parametrize("kind", OF_MODELS)
def test_a_missing_control_is_never_more_than_qualified(kind: str) -> None:
    names = _facts_of(kind)
    for held in itertools.product((True, False), repeat=len(names)):
        facts = dict(zip(names, held, strict=True))
        if facts["a control is missing"] or not facts["every baseline was recorded"]:
            assert facts["fires"] is False or decide(kind, facts).status != "survives"


@pytest.mark.parametrize("kind", OF_MODELS)
def test_a_detector_that_fires_on_clean_models_is_never_more_than_qualified(kind: str) -> None:
    names = _facts_of(kind)
    for held in itertools.product((True, False), repeat=len(names)):
        facts = dict(zip(names, held, strict=True))
        if facts["clean lab models fire too"] and facts["fires"]:
            assert decide(kind, facts).status not in ("survives", "clean")


def test_a_fact_that_nobody_established_is_an_error() -> None:
    with pytest.raises(KeyError):
        decide(COPIES, {"both sides have pictures": True})


def test_what_would_settle_a_claim_is_told_for_each_control_it_lacks() -> None:
    controls = [
        Control(name="external baseline", outcome="missing", reason="none"),
        Control(name="spread of clean models", outcome="missing", reason="one reference"),
        Control(name="structure", outcome="passed", reason="stays"),
    ]
    claim = Claim(
        id="twin-drop/m",
        cell=Cell(benchmark="b", model="m"),
        sentence="s",
        status="qualified",
        why="w",
        findings=[],
        controls=controls,
    )
    told = settled_by(claim)
    assert len(told) == 2
    assert "under baselines" in told[0]
    assert "three families" in told[1]  # not what would settle the cohort's own "spread"
    assert settled_by(claim.model_copy(update={"status": "survives"})) == []


def test_the_page_holds_the_table_that_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs/verdict.md").read_text()
    assert rules.as_markdown() in page
    assert required.as_markdown() in page


def test_every_required_control_belongs_to_a_kind() -> None:
    assert {kind for one in REQUIRED for kind in one.kinds} == set(KINDS)
    assert ORDER in next(one for one in REQUIRED if one.control == "structure").kinds


def test_every_control_that_code_makes_says_what_would_supply_it() -> None:
    """A control nobody listed would leave its claim unsettled without a word on how to settle it."""
    source = Path(rules.__file__).parent
    made = {
        name
        for path in source.rglob("*.py")
        if path.name != "published_map.py"  # reads other people's tables: nothing to supply
        for name in re.findall(r'Control\(\s*name="([^"]+)"', path.read_text())
    }
    assert len(made) >= 10
    for name in made:
        assert any(name.startswith(one.control) for one in REQUIRED), name


def test_advice_fits_how_the_run_was_made() -> None:
    """Who has no audit file is told flags of commands, and who has one is told its keys."""
    control = Control(name="in-domain control", outcome="missing", reason="none")
    claim = Claim(
        id="nearness/web",
        cell=Cell(benchmark="b", corpus="web"),
        sentence="s",
        status="qualified",
        why="w",
        findings=[],
        controls=[control],
    )
    (key,), (flag,) = settled_by(claim, audited=True), settled_by(claim, audited=False)
    assert "under controls" in key and "--control" not in key
    assert "--control NAME=SOURCE:in-domain" in flag and "domain: in-domain" not in flag
    for one in REQUIRED:
        assert "under " not in one.by_hand and "--plan" not in one.by_hand
