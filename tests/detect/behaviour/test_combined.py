"""combined: differences of several changes, added up image by image, with one sign for all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from behaviour_answers import answers_of, finding_of, outcome_of

from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables
from heldout.detect.behaviour import combined
from heldout.lab.power.planted_answers import ASKED, TARGET, planted_answers
from heldout.verdict import examine

QUICK = DetectSettings(permutations=99_999, baselines=("r",))


def _outcome(
    tables: ScoreTables, settings: DetectSettings = QUICK, model: str = "m", name: str = "combined"
) -> Outcome:
    return outcome_of(name, tables, settings, model)


def _finding(
    tables: ScoreTables, settings: DetectSettings = QUICK, model: str = "m", name: str = "combined"
) -> Finding:
    return finding_of(name, tables, settings, model)


def _tables(twin: str, confused: str, images: list[int] | None = None, *more: str) -> ScoreTables:
    """The model is right on all originals; references are right everywhere."""
    n = len(twin)
    names = ("r", *more)
    outcomes = {
        ("m", "original"): "1" * n,
        ("m", "twin"): twin,
        ("m", "confused-choices"): confused,
    }
    for name in names:
        for variant in ("original", "twin", "confused-choices"):
            outcomes[name, variant] = "1" * n
    tables = answers_of(outcomes, images=images)
    assert tables.answers is not None
    # Places differ, so that they can be adjusted for.
    place = pl.col("benchmark_id").str.slice(1).cast(pl.Int64)
    shift = pl.when(pl.col("variant") == "original").then(0).otherwise(1)
    letters = pl.Series(list("ABCD"))
    codes = tables.answers.select(((place * 7 // 3 + shift * (place % 3)) % 4).alias("c"))["c"]
    answers = tables.answers.with_columns(gold=pl.Series([letters[int(c)] for c in codes]))
    return replace(tables, answers=answers)


def test_images_are_flipped_for_all_changes_together() -> None:
    """The p of all 2^8 signs, by hand."""
    twin, confused = "0011101101110111", "1101011101111011"
    images = [place // 2 for place in range(16)]
    finding = _finding(_tables(twin, confused, images))
    drops = np.asarray([[1.0 - int(code) for code in text] for text in (twin, confused)])
    sums = drops.reshape(2, 8, 2).sum(2)
    parts = sums / np.sqrt((sums**2).sum(1, keepdims=True))
    together = parts.sum(0)
    observed = abs(together.sum())
    flips = [abs(np.dot(signs, together)) for signs in product((1, -1), repeat=8)]
    exact = np.mean([value >= observed - 1e-9 for value in flips])
    assert finding.p == pytest.approx(exact, abs=0.004)
    assert finding.statistic.value == pytest.approx(together.sum())
    assert finding.details["combined"]["of"] == ["twin-drop", "choice-confusion"]
    assert finding.clusters == 8


def test_the_same_sign_twice_is_one_sign() -> None:
    """Two changes that depend on one another wholly are worth what one of them is."""
    codes = "0011101101110111" * 2
    both = _finding(_tables(codes, codes))
    images = [place // 1 for place in range(32)]
    single = _finding(_tables(codes, codes, images), name="twin-drop")
    assert both.p == pytest.approx(single.p, rel=0.15)


def test_weak_signs_of_different_items_add_up() -> None:
    n = 40
    twin = "".join("0" if place in (1, 6, 11, 16, 21) else "1" for place in range(n))
    confused = "".join("0" if place in (3, 8, 13, 18, 23) else "1" for place in range(n))
    tables = _tables(twin, confused)
    single = [_finding(tables, name=name).p for name in ("twin-drop", "choice-confusion")]
    together = _finding(tables).p
    assert together is not None
    assert all(p is not None and p > 0.05 for p in single)
    assert together < 0.01


def test_one_change_is_not_enough() -> None:
    tables = _tables("01" * 10, "1" * 20)
    assert tables.answers is not None
    only = tables.answers.filter(pl.col("variant") != "confused-choices")
    outcome = _outcome(replace(tables, answers=only))
    assert isinstance(outcome, NotTestable)
    assert outcome.reason == combined.TOO_FEW


def test_changes_that_a_reference_lacks_are_left_out_if_two_remain() -> None:
    tables = planted_answers(3, dose=1.0)
    assert tables.answers is not None
    lost = (pl.col("model") == "baseline") & (pl.col("variant") == "twin")
    settings = ASKED.model_copy(update={"permutations": 999})
    kept = _finding(replace(tables, answers=tables.answers.filter(~lost)), settings, TARGET)
    assert kept.details["combined"]["of"] == ["option-margin", "choice-confusion", "slot-guess"]
    assert kept.details["references_unusable"] == {}
    lost = (pl.col("model") == "baseline") & (pl.col("variant") != "original")
    alone = _finding(replace(tables, answers=tables.answers.filter(~lost)), settings, TARGET)
    assert list(alone.details["references_unusable"]) == ["baseline"]


def test_probabilities_take_part_where_they_are_recorded() -> None:
    tables = planted_answers(3, dose=1.0)
    settings = ASKED.model_copy(update={"permutations": 999})
    names = _finding(tables, settings, TARGET).details["combined"]["of"]
    assert names == ["twin-margin", "option-margin"]  # clean models drop by the others, too
    assert tables.answers is not None
    counted = _finding(
        replace(tables, answers=tables.answers.drop("choice_logprobs")), settings, TARGET
    )
    assert counted.details["combined"]["of"][:2] == ["twin-drop", "option-order"]
    assert counted.direction == "seen"


def test_it_is_a_claim_of_its_own_with_the_controls_of_answers() -> None:
    n = 60
    twin = "".join("0" if place % 4 == 1 else "1" for place in range(n))
    confused = "".join("0" if place % 5 == 3 else "1" for place in range(n))
    more = ("s", "t")
    tables = _tables(twin, confused, None, *more)
    names = ("r", *more)
    settings = DetectSettings.read(
        {"permutations": 9999, "baselines": names, "families": {name: name for name in names}}
    )
    (claim,) = examine(tables, ["combined"], settings).claims
    assert claim.id == "combined/m"
    assert claim.status == "survives", claim
    controls = {control.name for control in claim.controls}
    assert {"spread of clean models", "skill of the references"} <= controls
    assert claim.rule == "answers/stands"
    one = settings.model_copy(update={"baselines": ("r",)})
    status = {claim.id: claim.status for claim in examine(tables, ["combined"], one).claims}
    assert status["combined/m"] == "qualified"


def test_clean_models_beside_their_references_are_clean() -> None:
    settings = ASKED.model_copy(update={"permutations": 999})
    finding = _finding(planted_answers(5), settings, TARGET)
    assert finding.direction != "seen"
    assert abs(finding.effect.value) < 0.4
