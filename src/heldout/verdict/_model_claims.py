"""Claims about a model: one per family of detectors, after the controls they went through.

Holm within a claim, Benjamini–Yekutieli across claims: the family is all tests that were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.detect import ALPHA, Finding, NotTestable, detectors
from heldout.errors import percent
from heldout.stats import adjust
from heldout.verdict.claim import Claim, Control, Status
from heldout.verdict.rules import ANSWERS, COHORT, MEMBERSHIP, Rule, decide, rule_id

BASELINE = "external baseline"
ATTAINABLE = "attainable p"
OWN_INTERVAL = "own interval"
REACH = "reach of the test"
LAB = "measured false positives"
# how the reason of a failed baseline says that the baseline shows the effect, too
FIRES_TOO = "fires too"
FIRES_ALONE = (
    "fires by itself"  # and how it says that the baseline shows it, and the model does not
)

AWAY = "away-from-memory"  # the rule of effects that point the other way
MORE_ALIKE = "name baselines that are more like it: from these it departs away from memory"
NOTABLE = 0.1  # a drop of clean references from which on a claim's sentence mentions it
WEAKER = 0.2  # accuracy in the first form lower by this much is mentioned in a claim's sentence


def with_adjusted(findings: Sequence[Finding], families: dict[str, str]) -> list[Finding]:
    """Every finding with its p adjusted by Holm within its family and model."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.p is not None:
            key = (families.get(finding.detector, finding.detector), finding.cell.model)
            groups.setdefault(key, []).append(index)
    adjusted: dict[int, float] = {}
    for members in groups.values():
        corrected = adjust([findings[index].p or 0.0 for index in members], "holm")
        adjusted.update(zip(members, corrected, strict=True))
    return [
        finding.model_copy(update={"p_adjusted": adjusted.get(index)})
        for index, finding in enumerate(findings)
    ]


def smallest_p(claims: dict[str, list[Finding]]) -> dict[str, float]:
    """One p per claim: the smallest of its findings', adjusted within the claim."""
    return {
        key: min((f.p_adjusted for f in claim if f.p_adjusted is not None), default=1.0)
        for key, claim in claims.items()
    }


def corrected(claims: Mapping[str, float], others: Sequence[float] = ()) -> dict[str, float]:
    """The claims' p corrected over these and all ``others`` planned with them, however dependent."""
    family = adjust([*claims.values(), *others], "by")
    return dict(zip(claims, family, strict=False))


def model_claim(
    family: str,
    findings: Sequence[Finding],
    untested: Sequence[NotTestable],
    q: float,
    controls: Sequence[Control],
    power: str = "",
) -> Claim:
    """``findings`` are one family's on one model; ``q`` is the claim's corrected p.

    ``power``: how often the detectors find planted contamination, for a claim in which nothing fires.
    """
    cell = (findings or untested)[0].cell
    kind = kind_of((findings or untested)[0].detector)
    rule = _rule(kind, findings, q, controls)
    status = rule.status
    strongest = strongest_of(findings)
    return Claim(
        id=f"{family}/{cell.model}",
        cell=cell,
        sentence=_sentence(
            family,
            status,
            cell.benchmark,
            str(cell.model),
            strongest,
            q,
            fire_alone(controls),
            off=facts_of(controls)["clean lab models fire too"],
        ),
        status=status,
        why=_why(rule, strongest, untested, controls, power, q),
        rule=rule_id(kind, rule),
        findings=[finding.id for finding in findings],
        controls=list(controls),
        next_step=_next_step(rule, controls),
        corrected_p=q if any(finding.p is not None for finding in findings) else None,
    )


def strongest_of(findings: Sequence[Finding]) -> Finding | None:
    """The finding a claim stands on: the smallest adjusted p, then the larger effect."""
    tested = [f for f in findings if f.p_adjusted is not None]
    if not tested:
        return findings[0] if findings else None
    return min(tested, key=lambda f: (f.p_adjusted, -abs(f.effect.value)))


def fires(findings: Sequence[Finding], q: float) -> bool:
    """Whether a finding fires: by its corrected p; a rate without a p by its flag, which is never more than
    qualified."""
    if any(f.p is not None for f in findings):
        return q <= ALPHA
    return any(f.details.get("flagged") for f in findings)


def kind_of(detector: str) -> str:
    """The rows of the verdict's table that decide about a detector's findings."""
    known = detectors().get(detector)
    return ANSWERS if known is None else known.kind


def _rule(kind: str, findings: Sequence[Finding], q: float, controls: Sequence[Control]) -> Rule:
    strongest = strongest_of(findings)
    return decide(
        kind,
        {
            "tested": bool(findings),
            "has a p": any(f.p is not None for f in findings),
            "fires": fires(findings, q),
            "points to memory": strongest is not None and strongest.direction == "seen",
            **facts_of(controls),
        },
    )


def facts_of(controls: Sequence[Control]) -> dict[str, bool]:
    """The facts about a finding that the table of rules asks for, from its controls."""
    baselines = [control for control in controls if control.name.startswith(BASELINE)]
    failed = [control for control in controls if control.outcome == "failed"]
    return {
        "every baseline was recorded": bool(baselines)
        and all(control.outcome != "missing" for control in baselines),
        "a reference is missing": any(control.outcome == "missing" for control in baselines),
        "a large effect need not have shown": any(control.name == REACH for control in controls),
        "every control passed": all(control.outcome == "passed" for control in controls),
        "a baseline fires too": any(FIRES_TOO in control.reason for control in failed),
        "a baseline fires alone": bool(fire_alone(controls)),
        "structure explains it": any(control.name == "structure" for control in failed),
        "covariates explain it": any(control.name == "covariates" for control in failed),
        "clean lab models fire too": any(control.name == LAB for control in failed),
        "a control failed": bool(failed),
        "no effect could have fired": any(control.name == ATTAINABLE for control in controls),
        "its interval excludes no effect": any(
            control.name == OWN_INTERVAL for control in controls
        ),
        "a control is missing": any(control.outcome == "missing" for control in controls),
    }


def fire_alone(controls: Sequence[Control]) -> str:
    """The baselines that fire where the model does not, as a sentence names them; "" for none."""
    return _failed_baselines(controls, FIRES_ALONE)


def _failed_baselines(controls: Sequence[Control], how: str) -> str:
    return ", ".join(
        control.name.removeprefix(BASELINE).strip()
        for control in controls
        if control.outcome == "failed" and how in control.reason
    )


def _sentence(
    family: str,
    status: Status,
    benchmark: str,
    model: str,
    finding: Finding | None,
    q: float,
    alone: str,
    off: bool = False,
) -> str:
    """``off``: the detector it stands on fires on clean models more often than its level."""
    have = "have" if " & " in model else "has"
    what = {"order": "order", "membership": "item-score", "cohort": "cohort"}.get(family, family)
    if finding is None:
        return f"Whether {model} {have} seen {benchmark} cannot be tested by {what} tests."
    effect = finding.effect
    named = "" if finding.detector == what else f"{finding.detector}: "
    message = (
        f"{named}{effect.name} = {effect.value:.3g} [{effect.low:.3g}, {effect.high:.3g}]"
        + (f" ({100 * effect.level:.3g} %)" if effect.level != 1 - ALPHA else "")
        + (
            f", corrected p = {q:.2g}"
            if finding.p is not None
            else ", no p without a clean reference"
        )
        + _beside(finding)
    )
    if status == "not testable":
        return (
            f"Whether {model} {have} seen {benchmark} cannot be decided by {what} tests: no effect could "
            f"have been significant ({message})."
        )
    if status == "clean":
        return (
            f"No sign in {what} tests that {model} {have} seen {benchmark} ({message}; an effect of "
            f"{finding.minimum_detectable_effect:.2g} would have been detected after correction)."
        )
    if status == "collapses" and not _looks_seen(finding):
        return (
            f"{model} on {benchmark} does not look seen by {what} tests: the effect does not point to "
            f"memory, and a baseline, named as one that cannot have seen it, fires as well ({message})."
        )
    if status == "collapses":
        return (
            f"{model} on {benchmark} looks seen by {what} tests, but so does a baseline, named as one "
            f"that cannot have seen it ({message})."
        )
    if status == "re-attributed":
        return f"{benchmark} shows an order effect for {model} that its own structure makes ({message})."
    if status == "survives":
        return f"{model} {have} seen {benchmark}, {what} tests say: {message}; every control was passed."
    if alone:
        return f"Baseline {alone} fires in {what} tests of {benchmark}, and {model} does not ({message})."
    if finding.direction == "not seen":
        beside = "its references" if finding.details.get("references") else "chance"
        return f"{model} on {benchmark} departs from {beside} on the side away from memory ({message})."
    if off:
        return (
            f"{finding.detector} fires for {model} on {benchmark}, as it does on too many clean models: by "
            f"itself this is no sign of memory ({message})."
        )
    if finding.effect.low > 0 and finding.p is not None and not q <= ALPHA:
        return f"{model} may have seen {benchmark}, which correction leaves open ({message})."
    if finding.p is None and not finding.details.get("flagged"):
        return f"Without a clean reference {what} tests do not say whether {model} {have} seen {benchmark} ({message})."
    if not (q <= ALPHA or finding.details.get("flagged")):
        return f"No effect found for {model} on {benchmark} in {what} tests ({message})."
    return f"{model} may have seen {benchmark} ({message})."


def _beside(finding: Finding) -> str:
    """How much the references can show: those that drop found the twins hard, and weaker ones have less to
    lose."""
    drops = [drop["value"] for drop in finding.details.get("references_own", {}).values()]
    message = ""
    dropping = bool(drops) and finding.effect.name.startswith("drop")
    if dropping and (mean := sum(drops) / len(drops)) >= NOTABLE:
        message += f"; the references themselves drop by {mean:.2g}"
    message += _old_answers(finding)
    right: Mapping[str, float] = finding.details.get("references_right", {})
    for form, own in list(finding.details.get("accuracy", {}).items())[:1]:
        seen = finding.direction == "seen"
        if right and seen and own["value"] - max(right.values()) >= WEAKER:
            # A model that remembers also scores higher there: the two cannot be separated.
            message += (
                f"; accuracy ({form}) is {percent(own['value'], 0)} and {percent(max(right.values()), 0)} at most "
                "of the references: memory, or weaker references"
            )
    return message


def _old_answers(finding: Finding) -> str:
    """What wrong replies to twins give, where that was counted."""
    counts: Mapping[str, Any] = finding.details.get("old_answer", {})
    if not counts:
        return ""
    others = [share for name, share in counts["among_wrong"].items() if name != finding.cell.model]
    message = f"; {counts['old']:.3g} of {counts['wrong']:.3g} wrong replies give the old answer"
    if not others:
        return message
    shares = dict.fromkeys(f"{percent(share, 0)}" for share in (min(others), max(others)))
    return f"{message}, and {' to '.join(shares)} of the references'"


def _looks_seen(finding: Finding) -> bool:
    """Whether the effect points to memory: two-sided tests fire in the other direction, too. A tail may be
    long, and yet shorter than a baseline's; answers collapse only if they look seen by themselves or compared
    with the references."""
    away = finding.direction != "seen" and not finding.details.get("flagged")
    return not (away and kind_of(finding.detector) in (MEMBERSHIP, COHORT))


def _why(
    rule: Rule,
    finding: Finding | None,
    untested: Sequence[NotTestable],
    controls: Sequence[Control],
    power: str,
    q: float,
) -> str:
    if finding is None:
        return "; ".join(dict.fromkeys(not_testable.reason for not_testable in untested))
    if rule.name == AWAY:
        return rule.reason
    if rule.status == "clean":
        least = f"{finding.minimum_detectable_effect:.2g}"
        message = f"this is no proof that it has not: effects below {least} may have been missed"
        message += not_recorded(finding)
        if finding.p is not None and finding.p <= ALPHA and finding.effect.value > 0:
            message += (
                f"; its p alone is {finding.p:.2g}, and {q:.2g} corrected over the tests that were planned together: "
                "more items would tell the two apart"
            )
        return f"{message}; {power}" if power else message
    bad = [control.reason for control in controls if control.outcome != "passed"]
    return "; ".join(bad) if bad else "; ".join(control.reason for control in controls)


def not_recorded(finding: Finding) -> str:
    """The part of the detectable effect that is due to answers that are missing; "" if none are."""
    hidden = finding.details.get("missing_may_hide")
    return f" ({hidden:.2g} of it may be in answers that are not recorded)" if hidden else ""


def _next_step(rule: Rule, controls: Sequence[Control]) -> str:
    status = rule.status
    if any(c.name.startswith(BASELINE) and c.outcome == "missing" for c in controls):
        return "record a model that cannot have seen the benchmark, and name it under baselines"
    if alone := fire_alone(controls):
        return f"baseline {alone} fires by itself: it may have seen the benchmark; name another baseline"
    if rule.name == AWAY and any(c.name.startswith(BASELINE) for c in controls):
        return MORE_ALIKE
    if status == "not testable":
        return "record what the reasons name, and detect again"
    if status == "survives":
        return "do not report this benchmark for this model without saying so"
    named = _failed_baselines(controls, FIRES_TOO)
    if named and any(c.name.startswith(BASELINE) and FIRES_TOO not in c.reason for c in controls):
        # one of several may have been named as clean and is not
        return f"if {named} may have seen the benchmark, too, name another baseline in its place"
    return "nothing" if status == "clean" else "look at the findings beside their controls"
