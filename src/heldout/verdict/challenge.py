"""Which controls a finding has to meet, and how each of them ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.detect import (
    ALPHA,
    CLAIMING,
    Finding,
    Floats,
    ScoreTables,
    Settings,
    cohort_scores,
    order_trend,
    tail_enrichment,
    top_k_overlap,
)
from heldout.verdict.claim import Control
from heldout.verdict.controls.baseline import against_baseline
from heldout.verdict.controls.behaviour import behaviour_controls
from heldout.verdict.controls.composition import sweep_cohort
from heldout.verdict.controls.gain import fit_gains, spread_about
from heldout.verdict.controls.orders import adjusted_trend
from heldout.verdict.controls.structure import trend_within_fields
from heldout.verdict.model_claims import BASELINE, fires, strongest_of

# Scores that scatter this much more than the cohort's put a clean model's items into the tail.
WIDER = 1.5


def challenge(
    tables: ScoreTables,
    family: str,
    findings: Sequence[Finding],
    everything: Sequence[Finding],
    q: float,
    settings: Settings,
) -> list[Control]:
    """Controls of one family's findings on one model; none of scores where nothing fires."""
    if family in CLAIMING:
        return behaviour_controls(findings, fires(findings, q), settings)
    if not fires(findings, q):
        return []
    strongest = strongest_of(findings)
    assert strongest is not None
    controls = [
        _baseline(tables, strongest, everything, baseline, settings)
        for baseline in settings.baselines
    ]
    if not settings.baselines:
        reason = "no external baseline was scored: calibration and structure are not ruled out"
        controls.append(Control(name=BASELINE, outcome="missing", reason=reason))
    if strongest.detector == order_trend.NAME:
        controls.append(_covariates(tables, str(strongest.cell.model), settings))
        controls.append(_structure(tables, strongest, settings))
        controls.append(_conditional(findings))
    if family == "membership":
        controls.append(_blind(everything))
    if strongest.detector == tail_enrichment.NAME:
        controls += _cohort(tables, str(strongest.cell.model), settings)
    return controls


def _baseline(
    tables: ScoreTables,
    finding: Finding,
    everything: Sequence[Finding],
    baseline: str,
    settings: Settings,
) -> Control:
    name = f"{BASELINE} {baseline}"
    if finding.detector == top_k_overlap.NAME:
        return _pairs(finding, everything, baseline, name)
    theirs = next(
        (f for f in everything if f.detector == finding.detector and f.cell.model == baseline), None
    )
    if theirs is None:
        return Control(name=name, outcome="missing", reason=f"{baseline} has no {finding.detector}")
    if finding.detector == tail_enrichment.NAME:
        above = (finding.p or 1.0) <= ALPHA and finding.effect.value > theirs.effect.value
        if above and not theirs.details["flagged"]:
            message = f"tail of {finding.effect.value:.1%} against the baseline's {theirs.effect.value:.1%}"
            return Control(name=name, outcome="passed", reason=message)
        message = f"the tail of {baseline} is {theirs.effect.value:.1%}"
        message += ": it fires too" if theirs.details["flagged"] else ", not clearly smaller"
        return Control(name=name, outcome="failed", reason=message)
    difference = against_baseline(tables, finding, baseline, settings)
    if isinstance(difference, str):
        return Control(name=name, outcome="missing", reason=difference)
    message = (
        f"{difference.what}: {difference.value:.3g} [{difference.interval.low:.3g}, "
        f"{difference.interval.high:.3g}], p = {difference.p:.2g}"
    )
    corrected = min(1.0, difference.p * len(settings.baselines))
    if corrected <= ALPHA and difference.value * finding.effect.value > 0:
        if _also_fires(theirs, finding):
            # What both show is not memory, and how much each makes of the same context differs, too.
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


def _pairs(finding: Finding, everything: Sequence[Finding], baseline: str, name: str) -> Control:
    mine = set(finding.details["models"])
    with_it = [
        f
        for f in everything
        if f.detector == top_k_overlap.NAME
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


def _covariates(tables: ScoreTables, model: str, settings: Settings) -> Control:
    left = adjusted_trend(tables, model, settings)
    if left is None:
        return Control(name="covariates", outcome="missing", reason="too few clusters")
    message = (
        f"with answer and question length taken out the released order keeps a correlation of "
        f"{left.rho:.3g} (p = {left.test.p:.2g})"
    )
    return Control(
        name="covariates", outcome="passed" if left.test.p <= ALPHA else "failed", reason=message
    )


def _structure(tables: ScoreTables, trend: Finding, settings: Settings) -> Control:
    """The trend within every metadata field that the release is grouped by.

    Gone means smaller by half and no longer significant; a trend that only lost its significance may
    have lost it to smaller strata, which settles nothing.
    """
    within = trend_within_fields(tables, str(trend.cell.model), settings)
    if not within:
        reason = "no metadata field is grouped along the released order"
        return Control(name="structure", outcome="passed", reason=reason)
    message = ", ".join(f"{one.field} {one.rho:.3g} (p = {one.p:.2g})" for one in within)
    weak = [one for one in within if one.p > ALPHA]
    gone = [within.field for within in weak if abs(within.rho) <= abs(trend.effect.value) / 2]
    if gone:
        reason = (
            f"the release is grouped by {', '.join(gone)}, and the trend is gone within: {message}"
        )
        return Control(name="structure", outcome="failed", reason=reason)
    if weak:
        reason = f"the trend cannot be told from what the release is grouped by: {message}"
        return Control(name="structure", outcome="missing", reason=reason)
    reason = f"the trend stays within what the release is grouped by: {message}"
    return Control(name="structure", outcome="passed", reason=reason)


def _conditional(findings: Sequence[Finding]) -> Control:
    """A trend is not memory by itself: does a test that conditions on the items before agree?"""
    name = "conditional order test"
    others = [f for f in findings if f.detector != order_trend.NAME and f.p_adjusted is not None]
    if not others:
        reason = "a rank trend alone is weak evidence, and order-joint or order-neighbour is not recorded"
        return Control(name=name, outcome="missing", reason=reason)
    best = min(others, key=lambda f: f.p_adjusted if f.p_adjusted is not None else 1.0)
    message = f"{best.detector} gives adjusted p = {best.p_adjusted:.2g}, {best.direction}"
    agrees = (best.p_adjusted or 0.0) <= ALPHA and best.direction == "seen"
    return Control(name=name, outcome="passed" if agrees else "failed", reason=message)


def _blind(everything: Sequence[Finding]) -> Control:
    blind = next((f for f in everything if f.detector == "blind"), None)
    if blind is None:
        return Control(
            name="blind", outcome="missing", reason="the blind baseline was not asked for"
        )
    message = f"words and metadata alone tell suspect from unseen items with AUC {blind.statistic.value:.3f}"
    bad = blind.p is not None and blind.p <= ALPHA
    return Control(name="blind", outcome="failed" if bad else "passed", reason=message)


def _cohort(tables: ScoreTables, model: str, settings: Settings) -> list[Control]:
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
        f"the gain gap of {fit.gain_gap:.3g} to the cohort's median alone puts {fit.tail_predicted:.1%} of "
        f"the items into the tail, which is {fit.explained:.0%} of it"
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
    """A model that is only noisier than its cohort has a longer tail on both sides."""
    own = spread_about(scores, models.index(model))
    others = [spread_about(scores, row) for row, name in enumerate(models) if name != model]
    usual = float(np.median(others))
    ratio = own / usual if usual > 0 else np.inf
    message = f"below their line its scores scatter {ratio:.2g} times as far as the others' do"
    return Control(name="spread", outcome="passed" if ratio < WIDER else "missing", reason=message)
