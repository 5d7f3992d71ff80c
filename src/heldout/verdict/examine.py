"""Detect, control, conclude: everything `heldout detect` does, offline over a run's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from heldout.detect import (
    DetectSettings,
    Finding,
    NotTestable,
    Outcome,
    ScoreTables,
    SelfCheck,
    TopItems,
    TripleHits,
    detectors,
    easiest_items,
    order_trend,
    run_detectors,
    triple_hits,
    with_strata,
)
from heldout.errors import html_table
from heldout.model import forget_detections
from heldout.stats import Contrast
from heldout.store import SCHEMAS, Run
from heldout.verdict._model_claims import (
    corrected,
    fires,
    kind_of,
    model_claim,
    smallest_p,
    with_adjusted,
)
from heldout.verdict.challenge import challenge
from heldout.verdict.claim import Claim, Control
from heldout.verdict.controls.inflation import Inflation, Stratum, run_inflation, run_strata
from heldout.verdict.controls.lab_rates import keeping_their_level, lab_control, power_note
from heldout.verdict.controls.orders import OrderResult, ablate_orders
from heldout.verdict.controls.reach import at_level, needed_p, reach_controls, together
from heldout.verdict.controls.same_models import (
    as_one_family,
    one_family,
    same_models,
    served_as_one,
    without_itself,
)
from heldout.verdict.looks import NONE, EarlierLooks, earlier_looks, record_looks
from heldout.verdict.measured import MeasuredRates, read_rates, shipped_rates
from heldout.verdict.rules import ANSWERS


@dataclass(frozen=True)
class Examination:
    findings: list[Finding]
    untested: list[NotTestable]
    claims: list[Claim]
    checks: dict[str, list[SelfCheck]]
    orders: dict[str, list[OrderResult]] = field(default_factory=dict)
    inflation: dict[str, list[Inflation]] = field(default_factory=dict)  # by corpus
    strata: dict[str, dict[str, list[Stratum]]] = field(default_factory=dict)  # by model and field
    easiest: list[TopItems] = field(default_factory=list)  # per model and score
    hits: list[TripleHits] = field(default_factory=list)  # per model, corpus and α
    hit_items: pl.DataFrame | None = None  # the table triple_hits
    measured: dict[str, Any] = field(default_factory=dict)  # the lab's rates of these detectors
    models: list[str] = field(default_factory=list)  # those that were looked at
    baselines: list[str] = field(default_factory=list)  # and which of them were references
    earlier: EarlierLooks = NONE  # at the same run, which were corrected for

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "claims": [claim.model_dump(mode="json") for claim in self.claims],
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
            "not_testable": [
                not_testable.model_dump(mode="json") for not_testable in self.untested
            ],
            "self_checks": {
                model: [check._asdict() for check in results]
                for model, results in self.checks.items()
            },
            "orders": {m: [row._asdict() for row in rows] for m, rows in self.orders.items()},
            "overlap_inflation": {
                corpus: [_inflation(row) for row in rows] for corpus, rows in self.inflation.items()
            },
            "strata": {
                model: {field: [_stratum(row) for row in rows] for field, rows in fields.items()}
                for model, fields in self.strata.items()
            },
            "easiest_items": [top_items.as_json() for top_items in self.easiest],
            "triple_hits": [hit.as_json() for hit in self.hits],
            "measured_rates": self.measured,
            "models": self.models,
            "baselines": self.baselines,
            "looks": self.earlier.as_json(),
        }


@dataclass(frozen=True)
class DetectorOutcomes:
    """The detectors' results before controls: findings by claim, each claim with its p."""

    tables: ScoreTables
    settings: DetectSettings
    sound: ScoreTables  # without models whose self-checks failed
    findings: list[Finding]
    untested: list[NotTestable]
    checks: dict[str, list[SelfCheck]]
    groups: dict[str, list[Finding]]  # by claim: family/model
    reasons: dict[str, list[NotTestable]]

    @property
    def p_values(self) -> dict[str, float]:
        """One p per claim that could be tested, adjusted within the claim."""
        return smallest_p({key: group for key, group in self.groups.items() if group})


def examine(
    tables: ScoreTables,
    names: Sequence[str] = (),
    settings: DetectSettings | None = None,
    rates: MeasuredRates | None = None,
) -> Examination:
    return judge(look(tables, names, settings), rates=rates)


def look(
    tables: ScoreTables, names: Sequence[str] = (), settings: DetectSettings | None = None
) -> DetectorOutcomes:
    chosen = settings or DetectSettings()
    outcomes, checks = run_detectors(tables, names, chosen)
    broken = [m for m, results in checks.items() if any(check.failed for check in results)]
    known = detectors()
    families = {name: detector.family for name, detector in known.items()}
    findings = with_adjusted(
        [outcome for outcome in outcomes if isinstance(outcome, Finding)], families
    )
    untested = [outcome for outcome in outcomes if isinstance(outcome, NotTestable)]
    groups: dict[str, list[Finding]] = {}
    reasons: dict[str, list[NotTestable]] = {}
    everything: list[Outcome] = [*findings, *untested]
    for outcome in everything:
        if known[outcome.detector].claims and outcome.cell.model not in chosen.baselines:
            key = f"{families[outcome.detector]}/{outcome.cell.model}"
            groups.setdefault(key, [])
            if isinstance(outcome, Finding):
                groups[key].append(outcome)
            else:
                reasons.setdefault(key, []).append(outcome)
    groups = {
        key: group
        for key, group in groups.items()
        if not _holds_baseline(key, chosen) and (group or names or not _not_asked(reasons[key]))
    }
    sound = tables.without(broken)
    return DetectorOutcomes(tables, chosen, sound, findings, untested, checks, groups, reasons)


def judge(
    looked: DetectorOutcomes,
    others: Sequence[float] = (),
    rates: MeasuredRates | None = None,
    earlier: EarlierLooks = NONE,
) -> Examination:
    """``others``: p of the claims that were planned together with these, 1 where one was not testable.

    The family is what was planned, not what could be tested: they can only make it larger. ``rates``: how
    often detectors fire on models whose contamination is known; the published ones if none are given.
    ``earlier``: looks at the same models that were made before.
    """
    others = [*others, *earlier.others]
    looked = _at_corrected_level(looked, others, earlier)
    chosen, sound, findings = looked.settings, looked.sound, looked.findings
    planned = len(looked.p_values) + len(others)
    known = rates or shipped_rates()
    q_values = corrected(looked.p_values, others)
    same = same_models(looked.tables)
    alike = one_family(looked.tables, chosen.baselines, same)
    families = as_one_family(chosen, alike)
    claims = []
    for key, every in looked.groups.items():
        family = key.split("/", 1)[0]
        standing, q = _standing(looked, others, key, known, earlier) or (
            every,
            _after_looks(q_values.get(key, 1.0), key, earlier),
        )
        model = key.split("/", 1)[1]
        controls = challenge(sound, standing, findings, q, families) if standing else []
        needed = fires(standing, q) or (bool(standing) and kind_of(standing[0].detector) == ANSWERS)
        controls = without_itself(controls, model, chosen, same, alike, needed)
        power = power_note(standing, controls, known)
        if fires(standing, q):
            controls += lab_control(standing, controls, known)
        else:
            controls += reach_controls(standing, planned)
        controls += _said_looks(key, earlier)
        controls += served_as_one(looked.tables, [*model.split(" & "), *chosen.baselines])
        claims.append(
            model_claim(family, standing, looked.reasons.get(key, []), q, controls, power)
        )
    trends = [f.cell.model for f in findings if f.detector == order_trend.NAME and f.cell.model]
    orders = {model: ablate_orders(sound, model, chosen) for model in trends}
    baseline = next(iter(chosen.baselines), None)
    inflation = run_inflation(sound, baseline=baseline, seed=chosen.seed)
    strata = run_strata(sound, baseline)
    hits, hit_items = triple_hits(sound, chosen)
    measured = known.of_detectors(
        [*(f.detector for f in findings), *(u.detector for u in looked.untested)]
    )
    return Examination(
        with_strata(findings, sound, chosen),
        looked.untested,
        claims,
        looked.checks,
        orders,
        inflation,
        strata,
        easiest_items(sound, chosen),
        hits,
        hit_items,
        measured,
        sorted({*looked.tables.models, *looked.tables.answering}),
        list(chosen.baselines),
        earlier,
    )


def _after_looks(q: float, key: str, earlier: EarlierLooks) -> float:
    return min(1.0, q * earlier.number.get(key, 1) ** 2)


def _said_looks(key: str, earlier: EarlierLooks) -> list[Control]:
    number = earlier.number.get(key, 1)
    if number == 1:
        return []
    reason = (
        f"this is look {number} at these tests of this run, so that the corrected p was multiplied by "
        f"{number**2} (manifest.json lists the looks)"
    )
    return [Control(name="earlier looks", outcome="passed", reason=reason)]


def _at_corrected_level(
    looked: DetectorOutcomes, others: Sequence[float], earlier: EarlierLooks
) -> DetectorOutcomes:
    """Detectable effects of the corrected tests, not of each by itself; and intervals of what does not fire
    that hold together for all tests of a model: of ten intervals by themselves one clean model in five would have
    one above no effect."""
    claims, groups = looked.p_values, {}
    q_values = corrected(claims, others)
    tests_of = Counter(
        finding.cell.model
        for group in looked.groups.values()
        for finding in group
        if finding.p is not None
    )
    for key, group in looked.groups.items():
        tests = sum(finding.p is not None for finding in group)
        needed = needed_p(key, tests, claims, others) if tests else 1.0
        needed /= earlier.number.get(key, 1) ** 2
        groups[key] = [at_level(finding, needed) for finding in group]
        if not fires(group, _after_looks(q_values.get(key, 1.0), key, earlier)):
            groups[key] = [together(f, tests_of[f.cell.model]) for f in groups[key]]
    known = {finding.id: finding for group in groups.values() for finding in group}
    findings = [known.get(finding.id, finding) for finding in looked.findings]
    return replace(looked, findings=findings, groups=groups)


def _standing(
    looked: DetectorOutcomes,
    others: Sequence[float],
    key: str,
    rates: MeasuredRates,
    earlier: EarlierLooks,
) -> tuple[list[Finding], float] | None:
    """The findings a claim can stand on by themselves, and its p, where some detector is off.

    A detector that fires on clean models caps its own findings, not those of others in its family: their p were
    corrected for it already.
    """
    every = looked.groups[key]
    kept = keeping_their_level(every, bool(looked.settings.baselines), rates)
    if not kept or len(kept) == len(every):
        return None
    p_values = {**looked.p_values, **smallest_p({key: kept})}
    q = _after_looks(corrected(p_values, others)[key], key, earlier)
    return (kept, q) if fires(kept, q) else None


def _stratum(stratum: Stratum) -> dict[str, Any]:
    interval = None if stratum.interval is None else [stratum.interval.low, stratum.interval.high]
    return {**stratum._asdict(), "interval": interval}


def _inflation(inflation: Inflation) -> dict[str, Any]:
    def contrast(gap: Contrast | None) -> dict[str, Any] | None:
        if gap is None:
            return None
        return {**gap._asdict(), "interval": [gap.interval.low, gap.interval.high]}

    return {
        "model": inflation.model,
        "stratum": inflation.stratum,
        "gap": contrast(inflation.gap),
        "above_baseline": contrast(inflation.above_baseline),
        "standardised": contrast(inflation.standardised),
    }


def save_examination(run: Run, examination: Examination) -> None:
    """Save findings and claims beside those of other stages, in place of earlier ones of this stage."""
    with run.writing():
        forget_detections(run)
        run.write_json("detections.json", examination.as_json())
        if examination.hit_items is not None and len(examination.hit_items):
            run.write_table(
                "triple_hits", examination.hit_items.to_arrow().cast(SCHEMAS["triple_hits"])
            )
        mine = {
            "findings": [finding.model_dump(mode="json") for finding in examination.findings],
            "claims": [claim.model_dump(mode="json") for claim in examination.claims],
        }
        for name, entries in mine.items():
            path = run.path / f"{name}.json"
            kept = run.read_json(f"{name}.json")[name] if path.exists() else []
            run.write_json(f"{name}.json", {"schema_version": 1, name: [*kept, *entries]})


def _not_asked(reasons: Sequence[NotTestable]) -> bool:
    """A variant that was not asked makes no claim; what is not testable is listed anyway."""
    return not any(
        reason.recorded or detectors()[reason.detector].needs == "scores" for reason in reasons
    )


def _holds_baseline(key: str, settings: DetectSettings) -> bool:
    """A pair of models of which one is a baseline is a control, not a claim."""
    return any(name in key.split("/", 1)[1].split(" & ") for name in settings.baselines)


# The verb detect: every detector over a run's tables, controls and claims, kept in the run.


@dataclass(frozen=True)
class Detection:
    """What ``heldout.detect`` returns.

    Args:
        run: The run whose tables were read, and which keeps the findings and claims.
        examination: Findings and claims as objects, with self-checks and what describes them.
    """

    run: Run
    examination: Examination

    @property
    def findings(self) -> pl.DataFrame:
        """One row per finding: detector, model, effect with its interval, p, direction."""
        return findings_frame(self.examination.findings)

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim: its status, and why."""
        return claims_frame(self.examination.claims)

    @property
    def untested(self) -> pl.DataFrame:
        """Which detector could not be run on which model, and why."""
        rows = [_of_cell(outcome, reason=outcome.reason) for outcome in self.examination.untested]
        return pl.DataFrame(
            rows, schema={"detector": pl.String, "model": pl.String, "reason": pl.String}
        )

    def __repr__(self) -> str:
        examination = self.examination
        cells = [outcome.cell for outcome in examination.findings] + [
            outcome.cell for outcome in examination.untested
        ]
        names = ", ".join(dict.fromkeys(cell.benchmark for cell in cells))
        return (
            f"<Detection of {names}: {len(examination.findings):,} findings, {len(examination.claims):,} "
            f"claims, {len(examination.untested):,} not testable, run {self.run.path}>"
        )

    def _repr_html_(self) -> str:
        rows = [(row["detector"], row["model"], row["reason"]) for row in self.untested.to_dicts()]
        untested = html_table(("not testable", "model", "reason"), rows) if rows else ""
        claims = claims_html(self.examination.claims) if self.examination.claims else ""
        return f"{claims}{untested}" or "<p>no detector was run</p>"


def detect_run(
    run: str | Path | Run,
    *,
    detectors: Sequence[str] = (),
    rates: str | Path | None = None,
    settings: DetectSettings | None = None,
    **values: Any,
) -> Detection:
    """Test whether models have seen a benchmark, from recorded scores and answers.

    ``heldout.detect(...)`` is this function, too. No model is loaded. Findings and claims are kept in the run.

    Args:
        run: A run with scores or answers.
        detectors: Names of detectors; default: all that the run has the tables for.
        rates: Measured rates of your own ``heldout lab power``; default: those that come with heldout.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.detect.DetectSettings``: ``baselines``, ``unseen``, ``strata``, …

    Returns:
        Findings and claims as data frames, and the run.

    Raises:
        InputError: The run has no scores and no answers, or a setting does not fit it.
    """
    chosen = DetectSettings.choose(settings, values)
    known = shipped_rates() if rates is None else read_rates(Path(rates))
    opened = run if isinstance(run, Run) else Run.open(run)
    looked = look(ScoreTables.load(opened), detectors, chosen)
    examination = judge(looked, rates=known, earlier=earlier_looks(opened, looked))
    save_examination(opened, examination)
    record_looks(opened, looked, examination)
    return Detection(opened, examination)


def findings_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    rows = [
        _of_cell(
            finding,
            corpus=finding.cell.corpus,
            effect=finding.effect.name,
            value=finding.effect.value,
            low=finding.effect.low,
            high=finding.effect.high,
            p=finding.p,
            p_adjusted=finding.p_adjusted,
            direction=finding.direction,
            n=finding.n,
            unit=finding.unit,
            clusters=finding.clusters,
            minimum_detectable_effect=finding.minimum_detectable_effect,
        )
        for finding in findings
    ]
    numbers = ("value", "low", "high", "p", "p_adjusted")
    schema = {
        **dict.fromkeys(("detector", "model", "corpus", "effect"), pl.String),
        **dict.fromkeys(numbers, pl.Float64),
        "direction": pl.String,
        "n": pl.Int64,
        "unit": pl.String,
        "clusters": pl.Int64,
        "minimum_detectable_effect": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def claims_frame(claims: Iterable[Claim]) -> pl.DataFrame:
    rows = [
        {
            "claim": claim.id,
            "status": claim.status,
            "sentence": claim.sentence,
            "why": claim.why,
            "next_step": claim.next_step,
            "model": claim.cell.model,
            "corpus": claim.cell.corpus,
        }
        for claim in claims
    ]
    names = ("claim", "status", "sentence", "why", "next_step", "model", "corpus")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def claims_html(claims: Iterable[Claim]) -> str:
    """Claims as a table for notebooks."""
    return html_table(("status", "claim", "why"), ((c.status, c.sentence, c.why) for c in claims))


def _of_cell(outcome: Finding | NotTestable, **rest: Any) -> dict[str, Any]:
    return {"detector": outcome.detector, "model": outcome.cell.model, **rest}
