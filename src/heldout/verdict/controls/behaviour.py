"""Controls of answers: clean reference models, their spread, unreadable replies, option places.

A reference is a model that cannot have seen the benchmark. The difference to each of them is tested, never
"the reference has p > .05". Clean models of different kinds differ between themselves, too: where a model gains
on its twins, but less than the references do, their spread has to be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy import special

from heldout.detect import ALPHA, DetectSettings, Finding
from heldout.errors import percent
from heldout.verdict._model_claims import (
    BASELINE,
    FIRES_ALONE,
    FIRES_TOO,
    REACH,
    not_recorded,
    strongest_of,
)
from heldout.verdict.claim import Control

# How far clean models differ among themselves: where would another one lie?
#
# Models of one base are one observation: their mean stands for the family. The interval is the one that a new
# family, drawn like the others, falls into 19 times out of 20 (Student's prediction interval).


SPREAD = "spread of clean models"
ENOUGH_FAMILIES = 3  # whose spread is worth an interval


def family_means(values: Mapping[str, float], settings: DetectSettings) -> dict[str, float]:
    """The mean value of each family of references; models without a named family are one family."""
    groups: dict[str, list[float]] = {}
    for model, value in values.items():
        groups.setdefault(settings.family_of(model), []).append(value)
    return {family: float(np.mean(group)) for family, group in groups.items()}


def spread_control(own: float, theirs: Mapping[str, float], settings: DetectSettings) -> Control:
    """``theirs``: the same of every reference."""
    means = family_means(theirs, settings)
    if len(means) < ENOUGH_FAMILIES:
        count = len(theirs)
        reason = (
            f"its value is {own:.3g}, and {count} clean reference{'' if count == 1 else 's'} "
            f"of {len(means)} famil{'y' if len(means) == 1 else 'ies'} cannot tell how much clean models "
            f"differ: name at least {ENOUGH_FAMILIES} families"
        )
        return Control(name=SPREAD, outcome="missing", reason=reason)
    return outside_spread(SPREAD, own, list(means.values()), "clean model", len(means))


def outside_spread(
    name: str, own: float, theirs: Sequence[float], kind: str, independent: int
) -> Control:
    """Does ``own`` lie above where another of this ``kind`` would? ``independent`` of them are.

    At least two are needed.
    """
    mean, spread = float(np.mean(theirs)), float(np.std(theirs, ddof=1))
    quantile = float(special.stdtrit(independent - 1, 1 - ALPHA / 2))
    high = mean + quantile * spread * float(np.sqrt(1 + 1 / independent))
    message = (
        f"its value is {own:.3g} before the references are subtracted; judging by how much they differ from each "
        f"other, a further {kind} would reach {high:.3g} at most"
    )
    return Control(name=name, outcome="passed" if own > high else "failed", reason=message)


UNREAD = "unreadable replies"
PLACE = "place of the right option"
SKILL = "skill of the references"
JUDGED = "twins that were judged"
CHANGED = "twins that differ"
RECORDED = "answers that are recorded"
BOTH_WRONG = "items that both answer wrong"
CATEGORY = "drop in a category"
MOST_LOST = 0.2  # of a model's replies; with more of them unreadable nothing is called clean
# Of the pairs that could have been asked. What is lost on one side alone moves a difference by up to its
# share, and tests of a few hundred items see .1. Unreadable replies may be more: they are tested both ways.
LEAST_RECORDED = 0.9
LARGEST = 0.5  # if an effect this large could have been missed, nothing is called clean
MOST_UNCHANGED = 0.5  # share of wrong twins in a set; with more, the others are not trusted either


def behaviour_controls(
    findings: Sequence[Finding], fired: bool, settings: DetectSettings
) -> list[Control]:
    strongest = strongest_of(findings)
    if strongest is None:
        return []
    references = _references(strongest, settings)
    if not fired:
        return _doubts(strongest, references)
    if _away(strongest):  # the other controls ask what else could look seen, and nothing does
        return [
            *references,
            *_changed(strongest),
            *_unread(strongest),
            *_recorded(strongest),
        ]
    return [
        *references,
        _spread(strongest, settings),
        *_skill(strongest),
        *_changed(strongest),
        *_judged(strongest),
        *_unread(strongest),
        *_recorded(strongest),
        *_place(strongest),
        *_both_wrong(strongest),
    ]


def _doubts(finding: Finding, references: Sequence[Control]) -> list[Control]:
    """What speaks against *clean* where nothing fires."""
    own = finding.details["own"]["direction"] == "seen"
    doubts = [
        reference
        for reference in references
        if reference.outcome == "missing" or (own and _failed(reference))
    ]
    least = finding.minimum_detectable_effect
    if finding.p is not None and least > LARGEST:
        reason = (
            f"{finding.n:,} pairs on {finding.clusters:,} images need not show an effect below "
            f"{least:.2g}{not_recorded(finding)}: too few to decide"
        )
        doubts.append(Control(name=REACH, outcome="missing", reason=reason))
    other, placed = finding.details["without_unread"], finding.details["place_taken_out"]
    if other is not None and ("not_testable" in other or other["direction"] == "seen"):
        doubts += _unread(finding)
    elif (lost := _lost(finding)) > MOST_LOST:
        reason = (
            f"{_unread_replies(finding)} ({percent(lost, 0)}): too many to conclude from the others that it has "
            f"not seen the benchmark"
        )
        doubts.append(Control(name=UNREAD, outcome="failed", reason=reason))
    if placed is not None and placed["direction"] == "seen":
        doubts += _place(finding)
    return [
        *doubts,
        *_categories(finding),
        *(control for control in (*_changed(finding), *_recorded(finding)) if _failed(control)),
    ]


def _categories(finding: Finding) -> list[Control]:
    """Memory of one category is diluted by the others: where it shows by itself, nothing is clean."""
    every: Mapping[str, Mapping[str, Any]] = finding.details.get("categories_above", {})
    seen = {name: record for name, record in every.items() if record.get("direction") == "seen"}
    if not seen:
        return []
    parts = ", ".join(
        f"{name} {_written(record)} (p = {record['p_adjusted']:.2g} over {len(every):,} categories)"
        for name, record in seen.items()
    )
    reason = f"over all items nothing fires, but it drops more than the references in {parts}"
    return [Control(name=CATEGORY, outcome="failed", reason=reason)]


def _lost(finding: Finding) -> float:
    return float(_unread_count(finding) / max(1, finding.details["replies"]))


def _unread_count(finding: Finding) -> int:
    return sum(sum(kinds.values()) for kinds in finding.details["unread"].values())


def _unread_replies(finding: Finding) -> str:
    """Each test compares other replies of a model: the count is of these alone."""
    replies = finding.details["replies"]
    return f"{_unread_count(finding):,} of the {replies:,} replies that this test compares cannot be read"


def _failed(control: Control) -> bool:
    return control.outcome == "failed"


def _away(finding: Finding) -> bool:
    """Whether the model looks seen neither by itself nor compared with the references."""
    return finding.direction != "seen" and finding.details["own"]["direction"] != "seen"


def _references(finding: Finding, settings: DetectSettings) -> list[Control]:
    details = finding.details
    if not settings.baselines:
        reason = "no clean reference model was asked: changed items may be easier or harder for all models"
        return [Control(name=BASELINE, outcome="missing", reason=reason)]
    controls = []
    for name in settings.baselines:
        label = f"{BASELINE} {name}"
        if name not in details["references"]:
            reason = details["references_unusable"].get(name, f"{name} was not asked")
            controls.append(Control(name=label, outcome="missing", reason=reason))
            continue
        above, own = details["references"][name], details["references_own"][name]
        message = f"the difference to {name} is {_written(above)}, p = {above['p']:.2g}"
        named = f"{name}, named as a model that cannot have seen it,"
        # No correction over the references: the claim needs all of them, and each may refuse it. Whether one
        # shows it by itself is asked of each, so that one in twenty clean ones would: that is corrected.
        more = above["p"] <= ALPHA and above["value"] > 0
        # A reference that only could not be read in the second form does not drop.
        shows = all(
            record["direction"] == "seen" and record["p"] * len(details["references"]) <= ALPHA
            for record in (own, _read_alone(finding, name) or own)
        )
        if more and shows:
            # What both models show is not memory, and the better model loses more by a bad twin.
            reason = f"{name} shows it as well, though less ({_written(own)}); {message}"
            controls.append(Control(name=label, outcome="missing", reason=reason))
        elif more:
            controls.append(Control(name=label, outcome="passed", reason=message))
        elif shows and _away(finding):
            reason = (
                f"{named} {FIRES_ALONE} ({_written(own)}), and this model does not "
                f"({_written(details['own'])}); {message}"
            )
            controls.append(Control(name=label, outcome="failed", reason=reason))
        elif shows:
            reason = f"{named} {FIRES_TOO} ({_written(own)}); {message}"
            controls.append(Control(name=label, outcome="failed", reason=reason))
        else:
            word = "less" if above["direction"] == "not seen" else "not clearly more"
            drops = details["own"]
            by_itself = f" (by itself {_written(drops)})" if drops["direction"] == "seen" else ""
            reason = f"{word} than in {name}{by_itself}; {message}"
            controls.append(Control(name=label, outcome="failed", reason=reason))
    return controls


def _read_alone(finding: Finding, reference: str) -> Mapping[str, Any] | None:
    """The reference's own difference without replies that cannot be read; None where all were read."""
    without: Mapping[str, Any] = finding.details["without_unread"] or {}
    theirs: Mapping[str, Mapping[str, Any]] = without.get("references_own", {})
    return theirs.get(reference)


def _spread(finding: Finding, settings: DetectSettings) -> Control:
    """Also where it drops by itself: clean models differ in how hard changed items are for them. Both with
    unreadable replies and without them, which no clean model may have shared with it."""
    ways = [finding.details, finding.details["without_unread"] or {}]
    controls = [
        spread_control(
            way["own"]["value"],
            {name: drop["value"] for name, drop in way["references_own"].items()},
            settings,
        )
        for way in ways
        if way.get("own")
    ]
    return next((control for control in controls if control.outcome != "passed"), controls[0])


def _skill(finding: Finding) -> list[Control]:
    """Wrong twins cost the most capable model most: a weaker reference does not rule them out. Nor does it say
    how much a better model gains on easier ones: there is less left to gain. And harder ones cost a reference
    that knows nearly everything nothing."""
    forms: Sequence[str] = finding.details.get("forms", ("originals", "changed items"))
    either: Mapping[str, Mapping[str, float]] = (
        finding.details.get("accuracy") or finding.details.get("margin") or {}
    )
    first = next(iter(either.values()), None)
    right: Mapping[str, float] = finding.details.get("references_right", {})
    gains = finding.details["own"]["value"] <= 0
    if gains and first is not None and right and first["low"] > max(right.values()):
        reason = (
            "it answers the changed items as well as the originals, only gains less than the references, "
            f"which reach at most {max(right.values()):.2f} on the originals where it reaches "
            f"{first['value']:.2f} and has less to gain: name a reference that is as good on the originals"
        )
        return [Control(name=SKILL, outcome="missing", reason=reason)]
    above: Mapping[str, Mapping[str, Any]] = finding.details.get("references_ahead_first", {})
    if above and all(record["direction"] == "not seen" for record in above.values()):
        message = ", ".join(f"{_written(record)} to {name}" for name, record in above.items())
        reason = (
            f"every reference answers the {forms[0]} better than it does (its difference is {message}): what is "
            "harder costs who is nearly always right next to nothing. Name a reference that is no better"
        )
        return [Control(name=SKILL, outcome="missing", reason=reason)]
    ahead: Mapping[str, Mapping[str, Any]] = finding.details.get("references_ahead", {})
    better = {name: record for name, record in ahead.items() if record["direction"] == "seen"}
    if not ahead:
        return []
    if len(better) < len(ahead):
        reason = f"at least one reference answers the {forms[1]} as well as it does"
        return [Control(name=SKILL, outcome="passed", reason=reason)]
    message = ", ".join(f"{_written(record)} above {name}" for name, record in better.items())
    # Which wrong option a twin's reader prefers says nothing of how well it reads.
    among: Mapping[str, Any] | None = finding.details.get("wrong_options")
    if among is not None and among["direction"] == "seen":
        reason = (
            f"it answers the changed items better than every reference ({message}), but among their wrong "
            f"options, too, it prefers the old answer more than they do: {_written(among)}, p = {among['p']:.2g}"
        )
        return [Control(name=SKILL, outcome="passed", reason=reason)]
    reason = (
        f"it answers the {forms[1]} better than every reference ({message}), so that wrong, unclear or harder "
        "ones cost it more than them: name a reference that is as good"
    )
    return [Control(name=SKILL, outcome="missing", reason=reason)]


def _changed(finding: Finding) -> list[Control]:
    """A twin that shows the original is answered as the original, and counted as wrong."""
    known: Mapping[str, Any] = finding.details.get("twins_unchanged", {})
    if not known.get("count"):
        return []
    share = known["count"] / (known["count"] + known["others"])
    outcome: Literal["passed", "failed"] = "failed" if share > MOST_UNCHANGED else "passed"
    sentence = known.get("sentence") or known["told"]  # the name in findings of older runs
    return [Control(name=CHANGED, outcome=outcome, reason=sentence)]


def _judged(finding: Finding) -> list[Control]:
    """Wrong twins look like a drop, and a generator makes many: a verifier or a person must have judged
    them."""
    controls: Mapping[str, int] = finding.details.get("twins", {})
    if not controls.get("unjudged"):
        return []
    reason = f"{controls['unjudged']:,} of {controls['items']:,} twins were not judged: wrong ones look like a drop"
    return [Control(name=JUDGED, outcome="missing", reason=reason)]


def _unread(finding: Finding) -> list[Control]:
    other = finding.details["without_unread"]
    if other is None:
        return []
    message = _unread_replies(finding)
    if "not_testable" in other:
        reason = f"{message}; without them nothing is testable: {other['not_testable']}"
        return [Control(name=UNREAD, outcome="failed", reason=reason)]
    same = other["direction"] == finding.direction
    reason = f"{message}; left out, the difference is {_written(other)}, p = {other['p']:.2g}"
    return [Control(name=UNREAD, outcome="passed" if same else "failed", reason=reason)]


def _recorded(finding: Finding) -> list[Control]:
    """Leaving out right answers makes a drop, or hides one on the other side."""
    counts: Mapping[str, Mapping[str, int]] = finding.details.get("pairs_recorded", {})
    partial = {
        name: record for name, record in counts.items() if record["recorded"] < record["possible"]
    }
    if not partial:
        return []
    few = [
        name
        for name, count in partial.items()
        if count["recorded"] < LEAST_RECORDED * count["possible"]
    ]
    message = "; ".join(
        f"answers to {count['recorded']:,} of {count['possible']:,} {finding.details['pairs']} are recorded"
        f"{'' if name == finding.cell.model else f' for {name}'}"
        for name, count in partial.items()
        if not few or name in few
    )
    if not few:
        return [Control(name=RECORDED, outcome="passed", reason=message)]
    reason = f"{message}: which ones were left out can make a difference, or hide one"
    return [Control(name=RECORDED, outcome="failed", reason=reason)]


def _place(finding: Finding) -> list[Control]:
    """Does the effect stay after adjusting for a favourite option place?"""
    placed = finding.details["place_taken_out"]
    if placed is None or placed["p"] is None:
        reason = "it is not recorded for both forms, or never differs between items"
        missing = Control(
            name=PLACE, outcome="missing", reason=f"position of the right option: {reason}"
        )
        return [missing] if finding.details["options"] else []
    same = placed["direction"] == finding.direction
    reason = (
        f"adjusted for answer position, the difference is {_written(placed)}, p = {placed['p']:.2g}"
    )
    if not same:
        return [Control(name=PLACE, outcome="failed", reason=reason)]
    return [_liked(finding, reason)]


def _liked(finding: Finding, reason: str) -> Control:
    """Does it stay where the model likes no place? Adjusting for places takes the same preference for every
    item, and who picks A only when unsure prefers it on hard items alone.

    It is gone if it is smaller by half and no longer significant, as within the structure of a release."""
    liked: Mapping[str, Any] = finding.details.get("liked_places", {})
    if not liked.get("places"):
        return Control(name=PLACE, outcome="passed", reason=reason)
    names = ", ".join(place.split("/")[0] for place in liked["places"])
    without = liked["without"]
    if without is None:
        reason += f"; it prefers {names}, and hardly any right answer was released elsewhere"
        return Control(name=PLACE, outcome="missing", reason=reason)
    stays = without["direction"] == finding.direction or without["value"] > finding.effect.value / 2
    reason += (
        f"; it prefers {names}, and without the items whose right answer was released there the difference is "
        f"{_written(without)}, p = {without['p']:.2g}"
    )
    return Control(name=PLACE, outcome="passed" if stays else "failed", reason=reason)


def _both_wrong(finding: Finding) -> list[Control]:
    """A better model is wrong on other items, where the old answer may attract anybody more."""
    if "both_wrong" not in finding.details:
        return []
    other = finding.details["both_wrong"]
    if other is None:
        reason = "the model and the references answer too few of the same items wrong"
        return [Control(name=BOTH_WRONG, outcome="missing", reason=reason)]
    same = other["direction"] == finding.direction
    reason = (
        f"on {other['n']:,} items that it and a reference answer wrong, the difference is "
        f"{_written(other)}, p = {other['p']:.2g}"
    )
    return [Control(name=BOTH_WRONG, outcome="passed" if same else "failed", reason=reason)]


def _written(test: Mapping[str, Any]) -> str:
    return f"{test['value']:+.3g} [{test['low']:+.3g}, {test['high']:+.3g}]"
