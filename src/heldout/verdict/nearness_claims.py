"""Claims about nearness: what a calibrated flag rate is worth once copies and controls are counted.

Nearness is never a leak, whatever its status: copies have a claim of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from heldout.detect import LEVEL, Cell, Finding
from heldout.errors import counted, percent
from heldout.overlap import COPIES_SEEN, LIGHT_COPY, Calibration, ControlRun
from heldout.stats import binomial_interval
from heldout.verdict.claim import Claim, Control, Status
from heldout.verdict.rules import NEARNESS, Rule, decide, rule_id


def nearness_claims(
    findings: Sequence[Finding], calibration: Calibration, benchmark: str
) -> list[Claim]:
    """One claim per calibrated corpus; ``findings`` are those of ``image_nearness``, adjusted."""
    cell = Cell(benchmark=benchmark, corpus=calibration.corpus)
    if not findings:
        return [_not_testable(cell, calibration)]
    images, rest, questions = findings
    controls = [
        _registration(images),
        *(_control(control, rest) for control in calibration.controls),
    ]
    controlled = any(control.domain == "in domain" for control in calibration.controls)
    if not controlled:
        controls.append(_no_control())
    controls.append(_light_copies(calibration))
    rule = _rule(images, rest, calibration, controls)
    status = rule.status
    return [
        Claim(
            id=f"nearness/{calibration.name}",
            cell=cell,
            sentence=_sentence(status, images, rest, questions, controlled=controlled),
            status=status,
            why=_why(status, images, rest, calibration, controls),
            rule=rule_id(NEARNESS, rule),
            findings=[finding.id for finding in findings],
            controls=controls,
            next_step="act on the claim about copies"
            if rule.name == "copies-beside"
            else _NEXT[status],
        )
    ]


def _rule(
    images: Finding, rest: Finding, calibration: Calibration, controls: Sequence[Control]
) -> Rule:
    fired = [
        control
        for control in calibration.controls
        if control.at_alpha is not None and control.at_alpha.fires
    ]
    inside = [
        control
        for control, run in zip(controls[1:], calibration.controls, strict=False)
        if run.domain == "in domain"
    ]
    facts = {
        "the null resolves a threshold": True,
        "fewer flags than chance": _falls(images),
        "more flags than chance": _rises(images),
        "copies were proven": _copies(images) > 0,
        "the interval holds the expected rate": _holds_expected(images),
        "light copies are flagged": _sees_copies(calibration),
        "more than chance without copies": _rises(rest),
        "a control is flagged as much": any(
            control_run.domain == "out of domain" or not _above(rest, control_run)
            for control_run in fired
        ),
        "the in-domain control passed": bool(inside)
        and all(control.outcome == "passed" for control in inside),
    }
    return decide(NEARNESS, facts)


def _rises(finding: Finding) -> bool:
    p = finding.p if finding.p_adjusted is None else finding.p_adjusted
    return finding.direction == "seen" and p is not None and p < LEVEL


def _falls(finding: Finding) -> bool:
    p = finding.p if finding.p_adjusted is None else finding.p_adjusted
    return finding.direction == "not seen" and p is not None and p < LEVEL


def _copies(images: Finding) -> int:
    """Pictures with a proven copy in this corpus, above τ or below; None for runs of earlier versions."""
    return int(images.details.get("proven_copies", images.details["flagged"]["proven copies"]))


def _holds_expected(images: Finding) -> bool:
    return bool(images.effect.low <= images.details["alpha"] <= images.effect.high)


def _above(rest: Finding, control: ControlRun) -> bool:
    assert control.at_alpha is not None
    return rest.effect.low > control.at_alpha.images.interval.high


def _registration(images: Finding) -> Control:
    counts = images.details["flagged"]
    message = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    open_ = counts["undecided"] + counts["not looked at"]
    return Control(
        name="alignment of similar pictures",
        outcome="missing" if open_ else "passed",
        reason=f"of the similar pictures: {message}" if message else "no picture is similar",
    )


def _control(control_run: ControlRun, rest: Finding) -> Control:
    name = f"{control_run.domain.replace(' ', '-')} control {control_run.name}"
    if control_run.at_alpha is None:
        return Control(name=name, outcome="missing", reason="no picture of it could be compared")
    rate = control_run.at_alpha.images
    message = (
        f"{rate.flagged:,} of {rate.n:,} pictures that are not in the corpus are as similar to it "
        f"({percent(rate.value)} [{percent(rate.interval.low)}, {percent(rate.interval.high)}]); "
        f"{percent(control_run.at_alpha.alpha)} were expected"
    )
    if control_run.at_alpha.fires:
        too_low = f"{message}: the threshold is too low for pictures of this kind"
        return Control(name=name, outcome="failed", reason=too_low)
    if control_run.domain == "in domain" and not _above(rest, control_run):
        return Control(
            name=name, outcome="missing", reason=f"{message}: too few to distinguish the two"
        )
    return Control(name=name, outcome="passed", reason=message)


def _no_control() -> Control:
    return Control(
        name="in-domain control",
        outcome="missing",
        reason="no pictures of the same kind that cannot be in the corpus were given: these images may be similar "
        "only because all pictures of their kind are",
    )


def _sees_copies(calibration: Calibration) -> bool:
    """A run made before copies were measured is taken to see them."""
    seen = calibration.copies_seen
    return seen is None or seen >= COPIES_SEEN * len(calibration.copies)


def _light_copies(calibration: Calibration) -> Control:
    seen, n = calibration.copies_seen, len(calibration.copies)
    name = "light copies are similar enough"
    if seen is None:
        return Control(name=name, outcome="missing", reason="no light copies were measured")
    interval = binomial_interval(seen, n)
    message = (
        f"{seen:,} of {n:,} pictures of the benchmark ({percent(seen / n, 0)} [{percent(interval.low, 0)}, "
        f"{percent(interval.high, 0)}]) would be above the threshold if the corpus held them {LIGHT_COPY}"
    )
    if _sees_copies(calibration):
        return Control(name=name, outcome="passed", reason=message)
    return Control(name=name, outcome="failed", reason=f"{message}: similarity misses copies here")


def _sentence(
    status: Status, images: Finding, rest: Finding, questions: Finding, *, controlled: bool
) -> str:
    benchmark, corpus = images.cell.benchmark, images.cell.corpus
    flagged = int(images.statistic.value)
    expected = images.details["alpha"] * images.n
    rate = (
        f"{flagged:,} of {images.n:,} images of {benchmark} ({percent(images.effect.value)} "
        f"[{percent(images.effect.low)}, {percent(images.effect.high)}])"
    )
    if _falls(images):
        return (
            f"The images of {benchmark} are less similar to {corpus} than the comparison pictures are to each "
            f"other: {flagged:,} of {images.n:,} are above the threshold, {expected:.1f} were expected. The "
            f"comparison pictures are of another kind, and copies may be below the threshold, too."
        )
    if not _rises(images) and _copies(images):
        copies = counted(_copies(images), "image is a proven copy", "images are proven copies")
        return (
            f"{flagged:,} of {images.n:,} images of {benchmark} are above the similarity threshold, "
            f"{expected:.1f} were expected by chance; yet {copies} of pictures of {corpus}. Few similar "
            f"pictures do not make a benchmark clean."
        )
    if not _rises(images) and not _holds_expected(images):
        side = "above" if images.effect.low > images.details["alpha"] else "below"
        return (
            f"{rate} are above the similarity threshold, {expected:.1f} were expected: no significant "
            f"difference, but the interval lies {side} the expected {percent(images.details['alpha'])}, so "
            f"that a difference is not excluded."
        )
    if not _rises(images):
        blind = (
            "" if status == "clean" else " But lightly edited copies would not be above it, either."
        )
        return (
            f"The images of {benchmark} are no more similar to {corpus} than unrelated pictures are: "
            f"{flagged:,} of {images.n:,} are above the threshold, {expected:.1f} were expected.{blind}"
        )
    # p is about pictures like the null's: without a control of the benchmark's kind it would attribute to these
    # pictures what may hold for their whole kind.
    p = f", {_p(images)}" if controlled else ""
    message = (
        f"{rate} are more similar to a picture of {corpus} than unrelated pictures are; {expected:.1f} "
        f"were expected by chance (α = {images.details['alpha']:.2g}{p}). They "
        f"carry {int(questions.statistic.value):,} of {questions.n:,} questions."
    )
    if status == "re-attributed":
        return f"{message} Proven copies explain it: {_rest(rest, controlled)}."
    left = _rest(rest, controlled)
    return f"{message} {left[0].upper()}{left[1:]}. Similar is not leaked."


def _rest(rest: Finding, controlled: bool) -> str:
    flagged = int(rest.statistic.value)
    verb = "is" if flagged == 1 else "are"
    words = f"of {rest.n:,} images without a proven copy, {flagged:,} {verb} that similar"
    return f"{words} ({_p(rest)})" if controlled else words


def _p(finding: Finding) -> str:
    p = finding.p if finding.p_adjusted is None else finding.p_adjusted
    if p is None:
        return "no test"
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"


def _why(
    status: Status,
    images: Finding,
    rest: Finding,
    calibration: Calibration,
    controls: Sequence[Control],
) -> str:
    assert calibration.tau is not None and calibration.null is not None
    low, high = calibration.tau.interval.low, calibration.tau.interval.high
    measured = (
        f"similar means a similarity by {calibration.encoder.split(' |')[0]} above "
        f"{calibration.tau.value:.4f} [{low:.4f}, {high:.4f}], which a share α of {len(calibration.null):,} "
        f"comparison pictures exceed ({calibration.null.source})"
    )
    trail = [measured, *calibration.notes]
    if status == "clean":
        trail.append(
            f"a share of {percent(images.minimum_detectable_effect)} would have been detected 19 times out of 20"
        )
    elif status == "survives":
        trail.append("pictures of the same kind that are not in the corpus are not that similar")
    elif status != "re-attributed":
        trail += [control.reason for control in controls[1:] if control.outcome != "passed"]
    at_hubs = int(images.details["flagged_at_hubs"])
    if at_hubs and status != "clean":
        trail.append(
            f"{at_hubs:,} of the {int(images.statistic.value):,} have a nearest corpus picture that is also "
            f"the nearest of others: a typical view, not a copy"
        )
    return "; ".join(trail)


_NEXT: dict[Status, str] = {
    "clean": "nothing; similarity does not detect cropped or rotated copies",
    "re-attributed": "act on the claim about copies",
    "collapses": "give comparison pictures of the benchmark's own kind (heldout overlap … --null SOURCE; in "
    "an audit file: clean_references.pictures): these are of another",
    "qualified": "give pictures of the same kind that cannot be in the corpus (heldout "
    "overlap … --control NAME=SOURCE:in-domain; in an audit file: controls), and look at the similar pairs",
    "survives": "look at the similar pairs: copies that could not be aligned may be among them, "
    "and scores on similar pictures may not carry over to others",
}


def _not_testable(cell: Cell, calibration: Calibration) -> Claim:
    return Claim(
        id=f"nearness/{calibration.name}",
        cell=cell,
        sentence=f"Whether {cell.benchmark} is more similar to {cell.corpus} than unrelated pictures are "
        f"could not be tested.",
        status="not testable",
        why=calibration.problem or "nothing could be measured",
        rule=rule_id(NEARNESS, decide(NEARNESS, {"the null resolves a threshold": False})),
        findings=[],
        next_step="give a reference set of pictures that cannot be in the corpus (heldout "
        "overlap … --null SOURCE; in an audit file: clean_references.pictures)",
    )
