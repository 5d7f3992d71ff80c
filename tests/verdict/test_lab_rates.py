"""A detector that fires on clean models of the lab carries no claim beyond qualified."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from measured_by_hand import BY_HAND, NOTHING_MEASURED, measured
from three_families import THREE_FAMILIES, in_three_families

from heldout.detect import DetectSettings
from heldout.errors import InputError
from heldout.lab.power.board import measured_rates
from heldout.lab.power.planted_answers import BASELINE, REFERENCE, planted_answers
from heldout.lab.power.planted_scores import PLANTED, planted_scores
from heldout.report._cell_words import in_words
from heldout.verdict import Claim, MeasuredRates, examine, read_rates, shipped_rates
from heldout.verdict.measured import BenchmarkRate, FiringCount, MeasuredRate
from heldout.verdict.published_map import read_map

DOCS = Path(__file__).parents[2] / "docs"
QUICK = PLANTED.model_copy(update={"permutations": 1999})
#: what the grid of 113 models of 1.9 million weights gave: the rates of that day
CONFUSED = measured("choice-confusion", (12, 28), (44, 73))
NEIGHBOUR = measured("order-neighbour", (34, 34), (82, 83), references=False)
QUIET = measured("order-joint", (0, 34), (1, 83))


def _confusion(rates: MeasuredRates) -> Claim:
    settings = DetectSettings(permutations=1999, baselines=(BASELINE, REFERENCE))
    tables = planted_answers(2, dose=4.0, clusters=80)
    (claim,) = (
        one
        for one in examine(tables, ["choice-confusion"], settings, rates).claims
        if one.cell.model == "target"
    )
    return claim


def _order(rates: MeasuredRates, *names: str, **changed: object) -> Claim:
    settings = QUICK.model_copy(update={**THREE_FAMILIES, **changed})
    made = examine(in_three_families(planted_scores(2, dose=3.0)), names, settings, rates)
    return next(one for one in made.claims if one.id == "order/target")


def _fired(why: str) -> list[tuple[int, str, int]]:
    """Clean models of the lab, a detector, and on how many of them it fired, as a claim gives them."""
    told = re.findall(r"(\S+) wrongly accused (\d+) of (\d+) lab models", why)
    return [(int(models), detector, int(fired)) for detector, fired, models in told]


def test_choice_confusion_is_capped_by_what_it_does_to_clean_models() -> None:
    assert (
        _confusion(NOTHING_MEASURED).rule == "answers/control-missing"
    )  # one family of references
    claim = _confusion(CONFUSED)
    assert (claim.status, claim.rule) == ("qualified", "answers/fires-on-clean")
    assert _fired(claim.why) == [(28, "choice-confusion", 12)]
    assert "compared with references" in claim.why
    assert "may have seen" not in claim.sentence  # a test that is off accuses nobody
    cell = {"corpus": None, "model": "target", "status": "qualified", "leak_rate": None}
    doubted = {"claims": [claim.model_dump()], "evidence": {}}
    assert in_words({**cell, **doubted}).startswith("no sign")
    other = _confusion(NOTHING_MEASURED).model_dump()
    assert in_words({**cell, **doubted, "claims": [claim.model_dump(), other]}).startswith(
        "may have"
    )
    quiet = {**claim.model_dump(), "rule": "answers/no-reference"}
    assert in_words({**cell, **doubted, "claims": [quiet]}).startswith("no effect")


def test_order_neighbour_by_itself_is_capped_before_the_missing_baseline_is() -> None:
    claim = _order(NEIGHBOUR, "order-neighbour", baselines=())
    assert (claim.status, claim.rule) == ("qualified", "order/fires-on-clean")
    assert _fired(claim.why) == [(34, "order-neighbour", 34)]
    assert "baselines" in claim.next_step  # against references it is another test


def test_a_claim_made_against_references_is_not_capped_by_the_rate_without_them() -> None:
    assert _order(NEIGHBOUR, "order-neighbour").status == "survives"


def test_a_detector_that_is_off_does_not_cap_what_the_others_of_its_family_say() -> None:
    off = measured("order-joint", (34, 34), (82, 83))
    assert _order(off, "order-joint").status == "qualified"
    claim = _order(off, "order-joint", "order-neighbour")
    assert claim.status == "survives"
    assert "order-neighbour" in claim.sentence


def test_a_rate_that_may_be_the_level_caps_nothing_and_is_told() -> None:
    claim = _order(measured("order-neighbour", (3, 34), (60, 83)), "order-neighbour")
    assert claim.status == "survives"
    assert _fired(claim.why) == [(34, "order-neighbour", 3)]


def _by_benchmark() -> MeasuredRates:
    """3 of 28 clean models keep the level, 3 of 8 of films do not."""
    quiet, loud = (
        BenchmarkRate(clean=FiringCount.of(*clean), contaminated=FiringCount.of(*seen))
        for clean, seen in (((0, 20, 20), (60, 69, 69)), ((3, 8, 8), (1, 16, 16)))
    )
    rate = MeasuredRate(
        detector="order-joint",
        way="with references",
        clean=FiringCount.of(3, 28, 28),
        contaminated=FiringCount.of(61, 85, 85),
        benchmarks={"scenes": quiet, "films": loud},
        off=True,
    )
    return MeasuredRates(provenance=BY_HAND, rates=[rate])


def test_a_benchmark_that_is_off_caps_and_is_named() -> None:
    rates = _by_benchmark()
    assert not rates.rates[0].clean.off
    claim = _order(rates, "order-joint")
    assert (claim.status, claim.rule) == ("qualified", "order/fires-on-clean")
    assert re.search(r"order-joint .*\b3 of 8\b.*\(drawn radiographs\) \(3 of 28 ", claim.why)


def test_tests_of_one_model_are_one_observation() -> None:
    assert FiringCount.of(3, 264, 30).high > 0.1 > FiringCount.of(3, 264, 264).high


def test_no_firing_says_what_it_still_allows() -> None:
    quiet = FiringCount.of(0, 34, 30, 7)
    assert quiet.high == pytest.approx(0.36, abs=0.005)
    rate = MeasuredRate(
        detector="order-neighbour",
        way="with references",
        clean=quiet,
        contaminated=FiringCount.of(60, 83, 83),
        off=False,
    )
    claim = _order(MeasuredRates(provenance=BY_HAND, rates=[rate]), "order-neighbour")
    assert claim.status == "survives"
    told = re.search(r"fired in (\d+) of (\d+) tests of (\d+) .*: (.*?); .* (\d+) base", claim.why)
    assert told is not None and told.group(1, 2, 3, 5) == ("0", "34", "30", "7")
    assert told[4] == "0 % to 36 %"
    # Files of older versions know no bases.
    old = json.loads(measured("order-joint", (0, 34), (1, 83)).model_dump_json())
    old["schema_version"] = 2
    for count in (old["rates"][0]["clean"], old["rates"][0]["contaminated"]):
        del count["bases"]
    assert MeasuredRates.model_validate(old).rates[0].clean.high < 0.11


def test_benchmarks_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    document = _by_benchmark().model_dump(mode="json")
    del document["rates"][0]["benchmarks"]["scenes"]
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"\b3 of 8\b.*\b3 of 28\b"):
        read_rates(path)


def test_what_a_baseline_shows_too_stays_explained() -> None:
    """A cap says that a finding may be nothing; a baseline that fires says what it is."""
    twins = planted_answers(2, easier=-2.5)
    settings = DetectSettings(permutations=1999, baselines=(BASELINE,))
    off = measured("twin-drop", (28, 28), (73, 73))
    made = examine(twins, ["twin-drop"], settings, off)
    assert next(one for one in made.claims if one.cell.model == "target").status == "collapses"


def test_clean_says_when_the_detector_was_never_shown_to_see_anything() -> None:
    def why(rates: MeasuredRates) -> str:
        made = examine(planted_scores(2), ("order-joint",), QUICK, rates)
        claim = next(one for one in made.claims if one.id == "order/reference")
        assert claim.status == "clean"
        return claim.why

    blind = measured("order-joint", (2, 34), (3, 83), references=False)
    assert "3 of 83" in why(blind)
    assert "finding nothing says little" in why(blind)
    seeing = measured("order-joint", (2, 34), (60, 83), references=False)
    assert "60 of 83" in why(seeing) and "finding nothing" not in why(seeing)
    # Quiet without references is another test than quiet against them.
    assert "not measured" in why(QUIET) and "not measured" in why(NOTHING_MEASURED)


def test_a_run_keeps_the_rates_and_names_what_was_not_measured() -> None:
    made = examine(planted_scores(2), ("order-joint", "order-trend"), QUICK, QUIET)
    kept = made.as_json()["measured_rates"]
    assert [one["detector"] for one in kept["rates"]] == ["order-joint"]
    assert kept["not_measured"] == ["order-trend"]


def test_a_cap_changes_the_published_map_only_where_it_says_so(shared_data: Path) -> None:
    folder = shared_data.parent / "golden/medvlm"
    plain = read_map(folder, rates=NOTHING_MEASURED)
    assert [one.ours for one in plain] == [one.ours for one in read_map(folder)]
    off = read_map(folder, rates=measured("order-trend", (34, 34), (83, 83), references=False))
    changed = [
        (one, other) for one, other in zip(plain, off, strict=True) if one.rule != other.rule
    ]
    assert changed
    for _, capped in changed:
        assert capped.rule == "order/fires-on-clean"
        assert _fired(capped.why) == [(34, "order-trend", 34)]


def assert_close(value: object, expected: object) -> None:
    """Equal, floats within 1e-9."""
    if isinstance(expected, dict):
        assert isinstance(value, dict) and value.keys() == expected.keys()
        for key in expected:
            assert_close(value[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert isinstance(value, list | tuple) and len(value) == len(expected)
        for element, other in zip(value, expected, strict=True):
            assert_close(element, other)
    elif isinstance(expected, float):
        assert value == pytest.approx(expected, abs=1e-9)
    else:
        assert value == expected


def test_the_shipped_rates_are_those_of_the_published_rows() -> None:
    """heldout lab power … --publish docs --rates-to src/heldout/verdict/measured_rates.json makes both."""
    shipped = shipped_rates()
    again = measured_rates(
        DOCS / "data/detector-power.parquet", shipped.provenance.command, shipped.provenance.weights
    )
    # Intervals come from scipy's beta quantiles, whose last bits differ between machines.
    assert_close(again.model_dump(), shipped.model_dump())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"off": False}, "does not follow"),
        ({"clean": {"fired": 9, "n": 3, "models": 3, "low": 0.0, "high": 1.0}}, "cannot be"),
        ({"clean": {"fired": 1, "n": 3, "models": 3, "low": 0.0, "high": 1.0}}, "has the interval"),
        ({"way": "sideways"}, "with references"),
    ],
)
def test_rates_that_contradict_themselves_are_a_sentence(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    document = CONFUSED.model_dump(mode="json")
    document["rates"][0] |= change
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=told):
        read_rates(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_rates(tmp_path / "nowhere.json")
