"""Which controls a finding has to pass, and how each of them ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from heldout.detect import (
    ALPHA,
    DetectSettings,
    Difference,
    Finding,
    Floats,
    ScoreTables,
    cohort_scores,
    detectors,
)
from heldout.errors import HeldoutError, InputError, blame_the_machine, percent
from heldout.verdict._model_claims import BASELINE, fires, strongest_of
from heldout.verdict.claim import Control
from heldout.verdict.controls.behaviour import (
    ENOUGH_FAMILIES,
    SKILL,
    SPREAD,
    behaviour_controls,
    outside_spread,
    spread_control,
)
from heldout.verdict.controls.cohort import fit_gains, spread_about, sweep_cohort
from heldout.verdict.controls.orders import adjusted_trend, trend_within_fields

# External baselines: is the effect larger than in a model that cannot have seen the benchmark?
#
# It is never "the baseline has p > .05": a baseline that just misses significance is not clean. The difference
# itself is
# tested, on the same items, shards or clusters, with the test the finding came from.


def against_baseline(
    tables: ScoreTables, finding: Finding, baseline: str, settings: DetectSettings
) -> Difference | str:
    """The difference in differences for one finding, or the reason why there is none."""
    model = finding.cell.model or ""
    if baseline == model:
        return "this is the baseline itself"
    unlike = tables.comparable(model, baseline)
    if unlike is not None:
        return unlike
    detector = detectors().get(finding.detector)
    if detector is None or detector.against is None:
        return f"{finding.detector} has no comparison with a baseline"
    return detector.against(tables, model, baseline, settings)


# Scores that scatter this much more than the cohort's put a clean model's items into the tail.
WIDER = 1.5


@dataclass(frozen=True)
class ControlInput:
    """What a control looks at.

    Args:
        finding: The finding the claim stands on.
        findings: All findings of its family on its model.
        everything: All findings of the run.
        fired: Whether the claim's corrected p is below the level.
        tables: The run's tables, without models whose self-checks failed.
        settings: The settings the detectors were given.
    """

    finding: Finding
    findings: Sequence[Finding]
    everything: Sequence[Finding]
    fired: bool
    tables: ScoreTables
    settings: DetectSettings

    @property
    def model(self) -> str:
        return str(self.finding.cell.model)


def challenge(
    tables: ScoreTables,
    findings: Sequence[Finding],
    everything: Sequence[Finding],
    q: float,
    settings: DetectSettings,
) -> list[Control]:
    """The controls that the detector of a claim's strongest finding names.

    Controls of scores are run only if the claim fires; those of answers also say what speaks against *clean*.
    """
    strongest = strongest_of(findings)
    detector = detectors().get(strongest.detector) if strongest is not None else None
    if strongest is None or detector is None:
        return []
    about = ControlInput(strongest, findings, everything, fires(findings, q), tables, settings)
    controls: list[Control] = []
    for entry in detector.controls:
        if about.fired or entry == ANSWERS:
            controls += _named(entry)(about) if isinstance(entry, str) else _theirs(entry, about)
    return controls


def _theirs(
    control: Callable[[ControlInput], Iterable[Control]], about: ControlInput
) -> list[Control]:
    """Controls of another package: one that fails is missing, so that it confirms nothing and ends nothing."""
    try:
        controls = list(control(about))
        strange = [type(each).__name__ for each in controls if not isinstance(each, Control)]
        if not strange:
            return controls
        problem = f"expected heldout.verdict.Control, found {', '.join(sorted(set(strange)))}"
    except Exception as error:
        blame_the_machine(error)
        if isinstance(error, HeldoutError):
            raise
        problem = f"{type(error).__name__}: {error}"
    name = getattr(control, "__name__", type(control).__name__).replace("_", " ").strip()
    reason = (
        f"a control of {about.finding.detector}, a detector of another package, failed ({problem})"
    )
    return [Control(name=name, outcome="missing", reason=reason)]


def _named(name: str) -> Callable[[ControlInput], list[Control]]:
    if name not in CONTROLS:
        raise InputError(f"there is no control '{name}'; there are {', '.join(CONTROLS)}")
    return CONTROLS[name]


def _against_each(
    compare: Callable[[ControlInput, str, str], Control],
) -> Callable[[ControlInput], list[Control]]:
    """A comparison with every baseline; a missing control where there is none."""

    def controls(about: ControlInput) -> list[Control]:
        baselines = about.settings.baselines
        if not baselines:
            reason = "no external baseline was scored: calibration and structure are not ruled out"
            return [Control(name=BASELINE, outcome="missing", reason=reason)]
        return [compare(about, baseline, f"{BASELINE} {baseline}") for baseline in baselines]

    return controls


def _of_baseline(about: ControlInput, baseline: str) -> Finding | None:
    detector = about.finding.detector
    return next(
        (f for f in about.everything if f.detector == detector and f.cell.model == baseline), None
    )


def _tail(about: ControlInput, baseline: str, name: str) -> Control:
    finding, theirs = about.finding, _of_baseline(about, baseline)
    if theirs is None:
        return Control(name=name, outcome="missing", reason=f"{baseline} has no {finding.detector}")
    above = (finding.p or 1.0) <= ALPHA and finding.effect.value > theirs.effect.value
    if above and not theirs.details["flagged"]:
        message = f"tail of {percent(finding.effect.value)} against the baseline's {percent(theirs.effect.value)}"
        return Control(name=name, outcome="passed", reason=message)
    message = f"the tail of {baseline} is {percent(theirs.effect.value)}"
    message += ": it fires too" if theirs.details["flagged"] else ", not clearly smaller"
    return Control(name=name, outcome="failed", reason=message)


def _baseline(about: ControlInput, baseline: str, name: str) -> Control:
    finding, theirs = about.finding, _of_baseline(about, baseline)
    if theirs is None:
        return Control(name=name, outcome="missing", reason=f"{baseline} has no {finding.detector}")
    difference = against_baseline(about.tables, finding, baseline, about.settings)
    if isinstance(difference, str):
        return Control(name=name, outcome="missing", reason=difference)
    message = (
        f"{difference.what}: {difference.value:.3g} [{difference.interval.low:.3g}, "
        f"{difference.interval.high:.3g}], p = {difference.p:.2g}"
    )
    corrected = min(1.0, difference.p * len(about.settings.baselines))
    if corrected <= ALPHA and difference.value * finding.effect.value > 0:
        if _also_fires(theirs, finding):
            # What both models show is not memory, and models also differ in how much they use the same context.
            message = f"{baseline} shows it as well, though less (p = {theirs.p:.2g}); {message}"
            return Control(name=name, outcome="missing", reason=message)
        return Control(name=name, outcome="passed", reason=message)
    if theirs.p is not None and theirs.p <= ALPHA:
        named = f"{baseline}, named as a model that cannot have seen it,"
        message = f"{named} fires too (p = {theirs.p:.2g}); {message}"
    else:
        message = f"not clearly more than in {baseline}; {message}"
    return Control(name=name, outcome="failed", reason=message)


def _also_fires(theirs: Finding, finding: Finding) -> bool:
    same_side = theirs.effect.value * finding.effect.value > 0
    return theirs.p is not None and theirs.p <= ALPHA and same_side


def _pairs(about: ControlInput, baseline: str, name: str) -> Control:
    finding = about.finding
    mine = set(finding.details["models"])
    with_it = [
        f
        for f in about.everything
        if f.detector == finding.detector
        and baseline in f.details["models"]
        and mine & set(f.details["models"])
    ]
    if not with_it:
        return Control(name=name, outcome="missing", reason=f"no pair with {baseline}")
    strongest = max(with_it, key=lambda f: f.statistic.value)
    message = (
        f"{finding.statistic.value:.0f} items in common, with {baseline} up to "
        f"{strongest.statistic.value:.0f} (p = {strongest.p:.2g})"
    )
    if strongest.p is not None and strongest.p <= ALPHA:
        return Control(name=name, outcome="failed", reason=f"{message}: it fires too")
    if finding.effect.low <= strongest.effect.high:
        return Control(name=name, outcome="failed", reason=f"{message}: not clearly more")
    return Control(name=name, outcome="passed", reason=message)


def _clean_spread(about: ControlInput) -> list[Control]:
    """Models differ in how they use a context or a form: would another clean one show as much?"""
    theirs = {
        name: _between_models(own)
        for name in about.settings.baselines
        if (own := _of_baseline(about, name)) is not None
    }
    return [spread_control(_between_models(about.finding), theirs, about.settings)]


def _between_models(finding: Finding) -> float:
    """The effect in units that models share: item scores have scales of their own."""
    return float(finding.details.get("in_deviations", finding.effect.value))


def _skilled(about: ControlInput) -> list[Control]:
    """A reference that sees or reads less shows less of what any capable model shows: harder pictures, topics that
    come in runs. Is one as good where what is tested cannot help?"""
    detector = detectors()[about.finding.detector]
    assert detector.skill is not None, f"{detector.name} names the control without a test for it"
    ahead = [
        detector.skill(about.tables, about.model, name, about.settings)
        for name in about.settings.baselines
        if name in about.tables.models and about.tables.comparable(about.model, name) is None
    ]
    tested = [difference for difference in ahead if not isinstance(difference, str)]
    if not tested:  # the external baseline is missing then, too
        return []
    better = [each for each in tested if each.p <= ALPHA and each.value > 0]
    if len(better) < len(tested):
        reason = "at least one reference is as good where what is tested cannot help"
        return [Control(name=SKILL, outcome="passed", reason=reason)]
    message = "; ".join(
        f"{each.baseline}: {each.value:+.3g} [{each.interval.low:+.3g}, {each.interval.high:+.3g}]"
        for each in better
    )
    reason = (
        f"it is better than every reference where what is tested cannot help ({better[0].what}; {message}), and "
        "weaker ones show less of what items and their order do to any capable model: name one that is as good"
    )
    return [Control(name=SKILL, outcome="missing", reason=reason)]


def _shared_difficulty(about: ControlInput) -> list[Control]:
    """Items are easy or hard for whole kinds of model: do pairs of clean models overlap as much?

    Two models of one base find the same items easy whatever they have seen, so the lineages have to be known.
    """
    finding, settings = about.finding, about.settings
    mine: list[str] = finding.details["models"]
    families = [settings.family_of(name) for name in mine]
    names = set(settings.baselines)
    pairs = [
        f.effect.value
        for f in about.everything
        if f.detector == finding.detector and names.issuperset(f.details["models"])
    ]
    lineages = {settings.family_of(name) for name in names}
    reasons = []
    if "" in families or families[0] == families[1]:
        reasons.append(
            f"it is not stated that {' and '.join(mine)} are of different families, and models of one base "
            "find the same items easy"
        )
    if len(lineages) < ENOUGH_FAMILIES:
        reasons.append(
            f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'} of baselines from {len(lineages)} "
            f"famil{'y' if len(lineages) == 1 else 'ies'} cannot tell how far clean models overlap"
        )
    if reasons:
        return [Control(name=DIFFICULTY, outcome="missing", reason="; ".join(reasons))]
    return [
        outside_spread(
            DIFFICULTY, finding.effect.value, pairs, "pair of clean models", len(lineages)
        )
    ]


def _covariates(about: ControlInput) -> list[Control]:
    left = adjusted_trend(about.tables, about.model, about.settings)
    if left is None:
        return [Control(name="covariates", outcome="missing", reason="too few clusters")]
    message = (
        f"adjusted for answer and question length, the released order keeps a correlation of "
        f"{left.rho:.3g} (p = {left.test.p:.2g})"
    )
    outcome: Literal["passed", "failed"] = "passed" if left.test.p <= ALPHA else "failed"
    return [Control(name="covariates", outcome=outcome, reason=message)]


def _structure(about: ControlInput) -> list[Control]:
    """The trend within every metadata field that the release is grouped by.

    It is gone if it is smaller by half and no longer significant; a trend that only lost its significance may
    have lost it to smaller strata, which settles nothing.
    """
    within = trend_within_fields(about.tables, about.model, about.settings)
    if not within:
        reason = "no metadata field is grouped along the released order"
        return [Control(name="structure", outcome="passed", reason=reason)]
    message = ", ".join(f"{trend.field} {trend.rho:.3g} (p = {trend.p:.2g})" for trend in within)
    weak = [trend for trend in within if trend.p > ALPHA]
    gone = [trend.field for trend in weak if abs(trend.rho) <= abs(about.finding.effect.value) / 2]
    if gone:
        reason = (
            f"the release is grouped by {', '.join(gone)}, and the trend is gone within: {message}"
        )
        return [Control(name="structure", outcome="failed", reason=reason)]
    if weak:
        reason = f"the trend cannot be distinguished from the grouping of the release: {message}"
        return [Control(name="structure", outcome="missing", reason=reason)]
    reason = f"the trend stays within what the release is grouped by: {message}"
    return [Control(name="structure", outcome="passed", reason=reason)]


def _conditional(about: ControlInput) -> list[Control]:
    """A trend is not memory by itself: does a test that conditions on the items before agree?"""
    name = "conditional order test"
    others = [
        f
        for f in about.findings
        if f.detector != about.finding.detector and f.p_adjusted is not None
    ]
    if not others:
        reason = "a rank trend alone is weak evidence, and order-joint or order-neighbour is not recorded"
        return [Control(name=name, outcome="missing", reason=reason)]
    best = min(others, key=lambda f: f.p_adjusted if f.p_adjusted is not None else 1.0)
    message = f"{best.detector} gives adjusted p = {best.p_adjusted:.2g}, {best.direction}"
    agrees = (best.p_adjusted or 0.0) <= ALPHA and best.direction == "seen"
    return [Control(name=name, outcome="passed" if agrees else "failed", reason=message)]


def _blind(about: ControlInput) -> list[Control]:
    blind = next((f for f in about.everything if f.detector == "blind"), None)
    if blind is None:
        return [
            Control(name="blind", outcome="missing", reason="the blind baseline was not asked for")
        ]
    message = f"words and metadata alone separate suspect from unseen items with AUC {blind.statistic.value:.3f}"
    bad = blind.p is not None and blind.p <= ALPHA
    return [Control(name="blind", outcome="failed" if bad else "passed", reason=message)]


def _cohort(about: ControlInput) -> list[Control]:
    tables, model, settings = about.tables, about.model, about.settings
    cohort = cohort_scores(tables, settings)
    if isinstance(cohort, str):
        return []
    scores, models = cohort[2], tables.models
    swept = sweep_cohort(scores, models, model, tail=settings.tail, flag=settings.flag)
    flagged = sum(composition.flagged for composition in swept)
    message = f"flagged in {flagged} of {len(swept)} sub-cohorts"
    stable = flagged == len(swept)
    fits = fit_gains(scores, models, tail=settings.tail)
    fit = next(fit for fit in fits if fit.model == model)
    share = (
        f"the gain gap of {fit.gain_gap:.3g} to the cohort's median alone puts {percent(fit.tail_predicted)} of "
        f"the items into the tail, which is {percent(fit.explained, 0)} of it"
    )
    return [
        Control(
            name="cohort composition", outcome="passed" if stable else "failed", reason=message
        ),
        Control(
            name="calibration", outcome="passed" if fit.explained < 0.5 else "failed", reason=share
        ),
        _spread(scores, models, model),
    ]


def _spread(scores: Floats, models: Sequence[str], model: str) -> Control:
    """Spread: a model that is only noisier than its cohort has a longer tail on both sides."""
    own = spread_about(scores, models.index(model))
    others = [spread_about(scores, row) for row, name in enumerate(models) if name != model]
    usual = float(np.median(others))
    ratio = own / usual if usual > 0 else np.inf
    message = f"below their line its scores scatter {ratio:.2g} times as far as the others' do"
    return Control(name="spread", outcome="passed" if ratio < WIDER else "missing", reason=message)


def _answers(about: ControlInput) -> list[Control]:
    return behaviour_controls(about.findings, about.fired, about.settings)


ANSWERS = "answers"
DIFFICULTY = "shared difficulty"
#: what a detector may name; the names of the controls themselves are those of verdict/required.py
CONTROLS: dict[str, Callable[[ControlInput], list[Control]]] = {
    BASELINE: _against_each(_baseline),
    "tail of the baseline": _against_each(_tail),
    "pairs with the baseline": _against_each(_pairs),
    DIFFICULTY: _shared_difficulty,
    SPREAD: _clean_spread,
    SKILL: _skilled,
    "covariates": _covariates,
    "structure": _structure,
    "conditional order test": _conditional,
    "blind": _blind,
    "cohort": _cohort,
    ANSWERS: _answers,
}
