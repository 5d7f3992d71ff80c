"""Verdicts on answers that must not be given: survives without memory, clean with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
from measured_by_hand import NOTHING_MEASURED

from heldout.detect import DetectSettings, ScoreTables, model_finding
from heldout.detect.tables import no_scores
from heldout.stats import Interval
from heldout.store import SCHEMAS
from heldout.verdict import Claim, examine
from heldout.verdict.controls.reach import reach_controls
from heldout.verdict.required import settled_by

QUICK = DetectSettings(permutations=1999, baselines=("reference",))
LETTERS = "ABCD"
#: from the right answer as released and on the twin: what the model says to either
Model = Callable[[str, str, np.random.Generator], tuple[str, str]]


def _outcome(claim: Claim, name: str) -> str:
    (control,) = (one for one in claim.controls if one.name == name)
    return control.outcome


def _tables(models: dict[str, Model], *, items: int = 300, yes: float | None = None) -> ScoreTables:
    """Every item has its own picture. ``yes``: no options, and the share the release answers so."""
    release = np.random.default_rng(7)
    golds = []
    for _ in range(items):
        if yes is None:
            old, new = release.choice(list(LETTERS), 2, replace=False)
        else:
            old, new = ("yes", "no") if release.random() < yes else ("no", "yes")
        golds.append((str(old), str(new)))
    rows = []
    for seed, (model, answer) in enumerate(models.items()):
        rng = np.random.default_rng(seed)
        for place, (old, new) in enumerate(golds):
            for variant, gold, said in zip(
                ("original", "twin"), (old, new), answer(old, new, rng), strict=True
            ):
                if said == "-":
                    continue  # not asked
                outcome = "unparsed" if said == "?" else "right" if said == gold else "wrong"
                rows.append(
                    {
                        "benchmark_id": f"q{place:03d}",
                        "model": model,
                        "variant": variant,
                        "draw": 0,
                        "options": list(LETTERS) if yes is None else [],
                        "gold": gold,
                        "outcome": outcome,
                        "template": "heldout-ask/2",
                    }
                )
    known = [
        {
            "benchmark_id": f"q{place:03d}",
            "position": place,
            "cluster": f"image{place}",
            "metadata": "{}",
        }
        for place in range(items)
    ]
    frames = []
    for name, made in (("items", known), ("answers", rows)):
        empty = pl.from_arrow(SCHEMAS[name].empty_table())
        assert isinstance(empty, pl.DataFrame)
        frames.append(pl.DataFrame(made, schema={key: empty.schema[key] for key in made[0]}))
    return ScoreTables("toy", frames[0], no_scores(), answers=frames[1])


def _claim(tables: ScoreTables, *references: str) -> Claim:
    """Every reference is of a family of its own."""
    names = references or QUICK.baselines
    families = tuple((name, name) for name in names)
    settings = QUICK.model_copy(update={"baselines": names, "families": families})
    claims = examine(tables, ["twin-drop"], settings, NOTHING_MEASURED).claims
    return next(one for one in claims if one.cell.model == "target")


def _beside_three(target: Model, yes: float | None = None) -> Claim:
    """Against references of three families."""
    clean = {"reference": _looks(0.75), "second": _looks(0.7), "third": _looks(0.8)}
    return _claim(_tables({"target": target, **clean}, yes=yes), *clean)


def _says(gold: str, right: float, rng: np.random.Generator) -> str:
    others = [one for one in ("yes", "no") if one != gold] if len(gold) > 1 else []
    others = others or [one for one in LETTERS if one != gold]
    return gold if rng.random() < right else str(rng.choice(others))


def _looks(right: float) -> Model:
    return lambda old, new, rng: (_says(old, right, rng), _says(new, right, rng))


def _remembers(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
    return (old, old) if rng.random() < 0.8 else _looks(0.6)(old, new, rng)


def test_who_says_yes_to_most_has_not_seen_a_release_that_says_so_too() -> None:
    def yes_man(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        looked = _looks(0.8)(old, new, rng)
        return tuple("yes" if rng.random() < 0.5 else one for one in looked)  # type: ignore[return-value]

    claim = _claim(_tables({"target": yes_man, "reference": _looks(0.75)}, yes=0.75))
    assert claim.status == "qualified"
    (place,) = (one for one in claim.controls if one.name.startswith("place"))
    assert place.outcome == "failed"
    memory = _beside_three(_remembers, yes=0.75)
    assert memory.status == "survives"


def test_a_release_of_yes_alone_cannot_tell_liking_yes_from_memory() -> None:
    claim = _beside_three(_remembers, yes=1.0)
    assert claim.status == "qualified"
    assert "place" in next(one.name for one in claim.controls if one.outcome == "missing")


def test_a_reference_that_sees_less_does_not_rule_out_wrong_twins() -> None:
    wrong = {number for number in range(300) if number % 4 == 0}

    def seeing(right: float) -> Model:
        counted = iter(range(300))

        def answer(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
            shown = old if next(counted) in wrong else new
            return _says(old, right, rng), _says(shown, right, rng)

        return answer

    models = {"target": seeing(0.95), "weak": seeing(0.35), "as good": seeing(0.95)}
    claim = _claim(_tables(models), "weak")
    assert claim.status == "qualified"
    assert _outcome(claim, "skill of the references") == "missing"
    models = {"target": seeing(0.95), "as good": seeing(0.95)}
    assert _claim(_tables(models), "as good").status == "collapses"


def test_a_baseline_that_remembers_makes_no_honest_model_look_seen() -> None:
    tables = _tables({"target": _looks(0.75), "reference": _remembers})
    claim = _claim(tables)
    assert claim.status == "qualified"
    assert claim.rule == "answers/baseline-fires-alone"
    assert "looks seen" not in claim.sentence
    assert "Baseline reference fires" in claim.sentence
    assert "to reference is -" in claim.why
    assert "name another baseline" in claim.next_step
    (advice,) = settled_by(claim)
    assert "name another baseline" in advice
    # Beside a baseline that does not remember, the same model is what it is.
    honest = _tables({"target": _looks(0.75), "reference": _looks(0.7)})
    assert _claim(honest).status == "clean"


def test_who_drops_less_than_a_baseline_does_still_collapses() -> None:
    def remembers_some(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return (old, old) if rng.random() < 0.3 else _looks(0.6)(old, new, rng)

    claim = _claim(_tables({"target": remembers_some, "reference": _remembers}))
    assert claim.status == "collapses"
    assert "fires too" in claim.why


def test_a_handful_of_pairs_is_never_clean() -> None:
    always: Model = lambda old, new, rng: (old, old)  # noqa: E731
    claim = _claim(_tables({"target": always, "reference": _looks(0.9)}, items=5))
    assert claim.status == "not testable"
    assert "5 images" in claim.why
    assert any("record more images" in advice for advice in settled_by(claim))


def test_a_reference_that_answered_next_to_nothing_clears_nobody() -> None:
    counted = iter(range(300))

    def lazy(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return _looks(0.6)(old, new, rng) if next(counted) < 6 else ("-", "-")

    claim = _claim(_tables({"target": _remembers, "reference": lazy}))
    assert claim.status == "qualified"


def test_replies_nobody_can_read_do_not_hide_a_drop() -> None:
    def mumbles(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return "?" if rng.random() < 0.5 else old, _says(new, 0.5, rng)

    claim = _claim(_tables({"target": mumbles, "reference": _looks(0.5)}))
    assert claim.status == "qualified"
    assert "the difference is +" in claim.why


def test_who_says_nothing_readable_is_not_clean() -> None:
    silent: Model = lambda old, new, rng: ("?", "?")  # noqa: E731
    claim = _claim(_tables({"target": silent, "reference": _looks(0.75)}))
    assert (claim.status, claim.rule) == ("not testable", "answers/untested")
    assert "300 replies of target" in claim.why
    beside = _claim(_tables({"target": _remembers, "reference": silent}))
    assert (beside.status, beside.rule) == ("qualified", "answers/no-baseline")
    assert "300 replies of reference" in beside.why

    def shy(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return tuple("?" if rng.random() < 0.4 else one for one in _looks(0.6)(old, new, rng))  # type: ignore[return-value]

    claim = _claim(_tables({"target": shy, "reference": _looks(0.4)}))
    assert claim.status == "qualified"
    assert _outcome(claim, "unreadable replies") == "failed"


def test_an_honest_model_is_still_clean() -> None:
    for yes in (None, 0.7):
        claim = _claim(_tables({"target": _looks(0.8), "reference": _looks(0.75)}, yes=yes))
        assert claim.status == "clean", claim.why


def test_twins_that_nobody_judged_carry_no_surviving_claim() -> None:
    tables = _tables(
        {"target": _remembers, "reference": _looks(0.7), "b": _looks(0.75), "c": _looks(0.8)}
    )
    names = ("reference", "b", "c")
    assert _claim(tables, *names).status == "survives"
    claim = _claim(replace(tables, twins={"twin": {"items": 300, "unjudged": 300}}), *names)
    assert claim.status == "qualified"
    assert "300 of 300 twins" in claim.why


def _records(right: float, kept: float) -> Model:
    """Looks, and of its right answers to twins only a share is in its file."""

    def answer(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        first, second = _looks(right)(old, new, rng)
        return first, "-" if second == new and rng.random() >= kept else second

    return answer


def test_a_file_that_lacks_most_right_answers_to_twins_is_no_proof_of_memory() -> None:
    claim = _claim(_tables({"target": _records(0.8, 0.06), "reference": _looks(0.8)}))
    assert claim.status == "qualified"
    (recorded,) = (one for one in claim.controls if one.name == "answers that are recorded")
    assert recorded.outcome == "failed"
    assert "of 300 twins" in claim.why
    assert any(advice.startswith(f"{recorded.name}: ") for advice in settled_by(claim))


def test_a_reference_whose_file_lacks_answers_is_named() -> None:
    hidden = {"target": _remembers, "reference": _records(0.8, 0.1)}
    claim = _claim(_tables(hidden))
    assert claim.status == "qualified"
    assert "recorded for reference" in claim.why


def test_what_is_not_recorded_is_not_called_clean() -> None:
    def skips(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        first, second = _looks(0.8)(old, new, rng)
        return first, second if rng.random() < 0.6 else "-"

    claim = _claim(_tables({"target": skips, "reference": _looks(0.8)}))
    assert (claim.status, claim.rule) == ("qualified", "answers/doubt")
    assert "of 300 twins" in claim.why


def test_a_few_answers_that_lack_hold_no_claim_back() -> None:
    def most(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        first, second = _remembers(old, new, rng)
        return first, second if rng.random() < 0.96 else "-"

    claim = _beside_three(most)
    assert claim.status == "survives"
    assert "of 300 twins" in claim.why
    quiet = _claim(_tables({"target": _looks(0.8), "reference": _looks(0.8)}))
    assert quiet.status == "clean"


def test_twins_that_nobody_recorded_are_counted_where_the_twins_are_known() -> None:
    def half(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return old, (old if old in "AB" else "-")

    def clean(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        return _says(old, 0.8, rng), (_says(new, 0.8, rng) if old in "AB" else "-")

    tables = _tables({"target": half, "reference": clean})
    assert not any("recorded" in one.name for one in _claim(tables).controls)
    known = replace(tables, twin_items={"twin": frozenset(tables.items["benchmark_id"])})
    claim = _claim(known)
    assert claim.status == "qualified"
    assert "of 300 twins" in claim.why
    # Items that nobody was asked about in any form are no gap: a budget left them out.
    few = tables.items["benchmark_id"].to_list()[:100]
    assert tables.answers is not None
    asked = tables.answers.filter(pl.col("benchmark_id").is_in(few))
    wanted = asked.filter(pl.col("variant") == "twin")["benchmark_id"].unique().to_list()
    both = asked.filter(pl.col("benchmark_id").is_in(wanted))
    claim = _claim(replace(known, answers=both))
    assert not any("recorded" in one.name for one in claim.controls)


def test_a_claim_says_where_its_references_drop_too_or_are_weaker() -> None:
    def falls(first: float, second: float) -> Model:
        return lambda old, new, rng: (_says(old, first, rng), _says(new, second, rng))

    claim = _claim(_tables({"target": falls(0.95, 0.3), "reference": falls(0.7, 0.4)}))
    assert "themselves drop by 0." in claim.sentence
    assert "or weaker references" in claim.sentence
    alike = _claim(_tables({"target": _remembers, "reference": _looks(0.8)}))
    assert "references themselves" not in alike.sentence
    assert "weaker" not in alike.sentence


def test_the_effect_of_a_clean_claim_counts_what_is_not_recorded() -> None:
    """The wrong replies to twins that are missing may be those that memory gave."""

    def skips(old: str, new: str, rng: np.random.Generator) -> tuple[str, str]:
        first, second = _looks(0.8)(old, new, rng)
        return first, "-" if second != new and rng.random() < 0.4 else second

    least = []
    for target in (_looks(0.8), skips):
        tables = _tables({"target": target, "reference": _looks(0.8)})
        (finding,) = (
            one
            for one in examine(tables, ["twin-drop"], QUICK, NOTHING_MEASURED).findings
            if one.cell.model == "target"
        )
        least.append((finding.details["missing_may_hide"], finding.minimum_detectable_effect))
    (nothing, whole), (share, partly) = least
    assert nothing == 0
    assert 0.05 < share < 0.1
    assert partly > whole + 0.9 * share
    claim = _claim(_tables({"target": skips, "reference": _looks(0.8)}))
    assert claim.status == "clean"
    assert f"{share:.2g} of it" in claim.why
    assert f"effect of {partly:.2g}" in claim.sentence


def test_few_pairs_beside_a_reference_are_not_said_to_lack_one() -> None:
    claim = _claim(_tables({"target": _looks(0.5), "reference": _looks(0.5)}, items=12))
    assert (claim.status, claim.rule) == ("qualified", "answers/too-few-pairs")
    assert _outcome(claim, "reach of the test") == "missing"
    assert any("ask more items" in advice for advice in settled_by(claim))


def test_an_effect_that_cannot_be_is_not_what_a_clean_model_lacks() -> None:
    """A handful of images would show a rank correlation above 1: there is nothing to be clean of."""
    finding = model_finding(
        "order-trend",
        "b",
        "m",
        unit="images",
        statistic=("correlation", 0.36),
        effect=("trend", 0.36, Interval(-0.45, 0.85, 0.95, "t")),
        error=0.71,
        p=0.4,
        n=24,
        clusters=6,
        blind_to=[],
        seed=0,
        table="scores",
        details={"largest_effect": 1.0, "least_p": 1e-3, "needed_p": 0.05},
    )
    (control,) = reach_controls([finding], 1)
    assert control.outcome == "missing"
    assert "larger than 1" in control.reason
    more = finding.model_copy(update={"minimum_detectable_effect": 0.4})
    assert reach_controls([more], 1) == []
