"""Clean models that rules once convicted, and contaminated ones that they once cleared.

`bench/verdicts.py` counts the same recipes over hundreds of benchmarks; here is one of each.
"""

from __future__ import annotations

import bisect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.detect.behaviour.option_order import in_natural_order
from heldout.verdict import detect_run, look
from heldout.verdict.controls.reach import together
from heldout.verdict.required import settled_by
from verdict_recipes import (
    CLEAN,
    CONTAMINATED,
    Recipe,
    few_shards,
    many_looks,
    natural_order,
    other_lengths,
    smuggled,
    topics_in_context,
    unanswerable,
    unequal_clusters,
    write_run,
)
from verdict_setups import CLEAN_SETUPS, CONTAMINATED_SETUPS, at_ceiling
from verdicts import counted_claims, detected, examined, fired, verdict_of


def _named(recipe: Recipe) -> str:
    return recipe.name


@pytest.mark.parametrize("recipe", CLEAN, ids=_named)
def test_a_clean_model_is_not_convicted(recipe: Recipe) -> None:
    recording = recipe.make(0)
    assert verdict_of(recording, examined(recording)) != "survives"


@pytest.mark.parametrize("recipe", CONTAMINATED, ids=_named)
def test_a_contaminated_model_is_not_cleared(recipe: Recipe) -> None:
    recording = recipe.make(0)
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status in ("survives", "qualified", "not testable")
    assert claim.status == "survives" or settled_by(claim) or "Testable with" in claim.why


def test_a_run_folder_gets_the_same_verdict() -> None:
    recording = few_shards(0, shards=2, beside=True)
    assert verdict_of(recording, detected(recording)) == verdict_of(recording, examined(recording))


def test_an_effect_beside_its_own_interval_is_possible_and_not_clean() -> None:
    recording = smuggled(0)
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.rule == "answers/own-interval"
    assert "98 claims" in claim.why
    assert "may have seen" in claim.sentence


def test_intervals_of_what_does_not_fire_hold_together_for_the_tests_of_a_model() -> None:
    """Ten tests of one model ask for 99.5 % intervals, and ten models for none."""
    alone = next(
        f
        for f in examined(unanswerable(0, share=0.75, better=0.8))[0].findings
        if f.cell.model == "model"
    )
    effect = alone.effect
    finding = alone.model_copy(
        update={"details": {**alone.details, "least_p": 1e-4, "needed_p": 0.001}, "clusters": 400}
    )
    assert together(finding, 1).effect == effect
    assert together(finding, 10).minimum_detectable_effect >= together(finding, 10).effect.high
    wide = together(finding, 10).effect
    assert wide.level == pytest.approx(0.995)
    ratio = (wide.value - wide.low) / (effect.value - effect.low)
    assert ratio == pytest.approx(2.82 / 1.966, rel=0.01)  # Student's t, 399 degrees of freedom
    assert (wide.high - wide.value) / (effect.high - effect.value) == pytest.approx(ratio)
    unreachable = finding.model_copy(update={"details": {"least_p": 0.03, "needed_p": 0.001}})
    assert together(unreachable, 10).effect == effect


def test_a_test_that_cannot_fire_is_not_testable() -> None:
    """Four shuffles of one shard have no p below .2, with or without an effect."""
    recording = few_shards(0, shards=1, beside=False)
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status in ("qualified", "not testable")
    assert "shuffles" in " ".join(settled_by(claim))
    (finding,) = (f for f in examined(recording)[0].findings if f.cell.model == "model")
    assert finding.details["least_p"] == pytest.approx(0.2)


def test_a_reference_that_drops_as_well_leaves_a_drop_possible() -> None:
    recording = unanswerable(0, share=0.9, better=1.6)
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status == "qualified"
    assert "though less" in claim.why


def test_effects_are_those_of_the_corrected_test() -> None:
    """Among more claims a smaller p is needed, so that only a larger effect would have shown."""
    least = []
    for claims in (2, 98):
        recording = smuggled(0, claims=claims)
        (finding,) = (f for f in examined(recording)[0].findings if f.cell.model == "model")
        least.append(finding.minimum_detectable_effect)
    assert least[1] > 1.2 * least[0]


def test_clusters_of_unequal_size_hold_the_level() -> None:
    made = [unequal_clusters(seed, suspects=(90, 8), fresh=(10, 1)) for seed in range(20)]
    assert (
        sum(fired(recording, examined(recording)) for recording in made) <= 3
    )  # 1 expected, .26: 5


def test_few_fresh_images_print_the_effect_that_few_can_show() -> None:
    """Ten of a hundred images are fresh: these ten say how well the error of the difference is known."""
    recording = unequal_clusters(0, suspects=(90, 8), fresh=(10, 1))
    (names, settings), *_ = recording.looks
    alone = {
        f.id: f.minimum_detectable_effect for f in look(recording.tables, names, settings).findings
    }
    (finding,) = (f for f in examined(recording)[0].findings if f.id == "loss/model")
    assert finding.details["clusters_by_side"] == [90, 10]
    assert finding.minimum_detectable_effect > 1.15 * alone[finding.id]


def test_unseen_items_of_another_kind_are_no_comparison() -> None:
    recording = other_lengths(0)
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status == "not testable"
    assert "hardly share strata" in claim.why


@pytest.mark.parametrize(
    ("options", "natural"),
    [
        (["2", "4", "6"], True),
        (["6", "2", "4"], False),
        (["1,500", "20,000", "300,000"], True),
        (["0.5 cm", "1,5 cm", "2 cm"], True),
        (["mild", "moderate", "severe"], True),
        (["stage III", "stage II", "stage I"], True),
        (["liver", "spleen", "none of the above"], True),
        (["red", "blue", "Cannot be determined"], True),
        (["no", "yes"], True),
        (["liver", "spleen", "heart"], False),
        (["red"], False),
        (["image 1", "image 2", "image 3"], False),
    ],
)
def test_options_in_a_natural_order(options: list[str], natural: bool) -> None:
    assert in_natural_order(options) is natural


def test_items_with_options_in_a_natural_order_are_kept_apart() -> None:
    recording = natural_order(0, n=495)
    (finding,) = (f for f in examined(recording)[0].findings if f.cell.model == "model")
    apart = finding.details["natural_order"]
    assert finding.n < 300 < apart["with_all_items"]["n"]
    assert apart["alone"]["value"] > 0.05 > abs(finding.effect.value)


def test_a_further_look_is_corrected_for_and_said(tmp_path: Path) -> None:
    recording = many_looks(0)
    run = write_run(recording, tmp_path / "run")
    claims = [
        detect_run(run, detectors=names, settings=settings).examination.claims[0]
        for names, settings in [*recording.looks[:3], recording.looks[2]]
    ]
    said = [[c.reason for c in claim.controls if c.name == "earlier looks"] for claim in claims]
    assert said[0] == []
    assert "look 2" in said[1][0]
    assert "look 3" in said[2][0]
    assert claims[3] == claims[2]  # the same again is no further look
    looks = run.manifest()["looks"]["twin-drop/model"]
    assert [look["baselines"] for look in looks] == [[f"reference-{n}"] for n in (1, 2, 3)]


def test_the_command_line_says_that_a_further_look_was_corrected_for(tmp_path: Path) -> None:
    recording = many_looks(0)
    run = write_run(recording, tmp_path / "run")
    names, settings = recording.looks[0]
    detect_run(run, detectors=names, settings=settings)

    def detect(*more: str) -> str:
        call = ["detect", str(run.path), "--baseline", "reference-2", "--permutations", "999"]
        done = CliRunner().invoke(app, [*call, *more], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.output

    note = json.loads(detect("--detector", names[0], "--json"))["looks"]
    assert note["number"]["twin-drop/model"] == 2
    assert re.search(r"\b3 claims .*\bmultiplied by 4\b", note["note"])
    assert note["note"] in " ".join(detect("--detector", names[0]).split())
    # Claims of other calls alone belong to the family, and this is said as well.
    other = detect("--detector", "choice-confusion")
    assert "5 claims of earlier" in other
    fresh = write_run(recording, tmp_path / "fresh")
    assert detect_run(fresh, detectors=names, settings=settings).examination.earlier.sentence == ""


def test_topics_that_help_in_context_do_not_convict_by_themselves() -> None:
    recording = topics_in_context(1)
    made = examined(recording)
    (claim,) = counted_claims(recording, made)
    assert fired(recording, made)
    assert claim.status == "qualified"


#: benchmarks on which earlier rules convicted the model, where they did not on the first
CONVICTED = {
    "twin-drop: harder twins, references near it": 3,
    "twin-margin: harder twins, references at the ceiling": 6,
    "twin-memory: picks A when unsure, hard half at A": 21,
    "option-order: picks A when unsure, hard half at A": 3,
    "twin-drop: 40 % of its replies to twins unreadable": 6,
    "fresh-drop: harder fresh items, references near chance": 10,
    "fresh-drop: harder fresh items, references at the ceiling": 1,
    "loss: harder fresh pictures, three families see nothing": 4,
    "order-neighbour: topic runs, three families of weaker readers": 11,
    "order-joint: topic runs, three families of weaker readers": 2,
}


@pytest.mark.parametrize("recipe", CLEAN_SETUPS, ids=_named)
def test_a_clean_model_is_not_convicted_in_further_set_ups(recipe: Recipe) -> None:
    recording = recipe.make(CONVICTED.get(recipe.name, 0))
    assert verdict_of(recording, examined(recording)) != "survives"


@pytest.mark.parametrize("recipe", CONTAMINATED_SETUPS, ids=_named)
def test_a_contaminated_model_is_not_refuted_in_further_set_ups(recipe: Recipe) -> None:
    recording = recipe.make(CONVICTED.get(recipe.name, 0))
    (made,) = examined(recording)
    (claim,) = counted_claims(recording, [made])
    if claim.status == "clean":  # only with an effect that is printed as too small to be seen
        (finding,) = (f for f in made.findings if f.id in claim.findings)
        assert finding.details.get("missing_may_hide", 0) > 0.05
        assert finding.minimum_detectable_effect > 0.2
    else:
        assert claim.status in ("survives", "qualified")


@pytest.mark.parametrize("claims", [1, 20])
def test_the_effect_that_clean_prints_would_have_been_seen_near_the_ceiling(claims: int) -> None:
    """No pair differs, and yet one that has the effect differs by it: its own noise counts. At the ceiling the
    number of twins that are lost decides, so that how often the effect is missed is known and not simulated."""
    n = 495

    def is_clean(lost: int) -> bool:
        one = at_ceiling(0, drop=(np.arange(n) < lost).astype(float), claims=claims, n=n)
        return verdict_of(one, examined(one)) == "clean"

    quiet = at_ceiling(0, drop=0.0, claims=claims, n=n)
    (finding,) = (f for f in examined(quiet)[0].findings if f.id == quiet.claim)
    least = finding.minimum_detectable_effect
    shown = bisect.bisect_left(range(round(n * least)), True, key=lambda lost: not is_clean(lost))
    assert shown > 0
    missed = stats.binom.cdf(shown - 1, n, least)
    assert missed <= 0.05  # .3 and .2 before
