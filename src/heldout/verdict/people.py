"""What judgements of matches add to a claim: how many there are, whether raters agree, what they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from heldout.errors import counted
from heldout.evidence import BY_DIGEST, COPIES, POSSIBLE_COPIES, Relation
from heldout.overlap import (
    DISAGREE,
    DISMISSED_ALONE,
    RAISED_ALONE,
    RELATIONS,
    SAME_CAPTION,
    SAME_ITEM,
    TEXT_RELATIONS,
    match_subject,
    not_agreed,
    recognised,
)
from heldout.stats import RaterAgreement, agreement
from heldout.verdict._reworded import READ_FEW
from heldout.verdict.claim import Claim, Control
from heldout.verdict.rules import COPIES as COPIES_KIND
from heldout.verdict.rules import decide, rule_id

PEOPLE = "people"
# What raters have not agreed on → who could settle it.
_SETTLE = {
    DISMISSED_ALONE: "let a second rater judge what was dismissed (heldout review RUN --blind)",
    DISAGREE: "let another rater judge what raters disagree about (heldout review RUN --blind)",
    RAISED_ALONE: "let a second rater judge what one alone calls a copy (heldout review RUN --blind)",
}


def with_people(claims: Sequence[Claim], matches: pl.DataFrame) -> list[Claim]:
    """Claims of image overlap with the judgements of their matches among their controls.

    ``matches`` are as people judged them (overlap/judgements.py): nothing else is read.
    """
    judged = matches.filter(pl.col("evidence").str.json_path_match("$.people").is_not_null())
    if judged.is_empty():
        return list(claims)
    return [_with_people(claim, matches, judged) for claim in claims]


def _with_people(claim: Claim, matches: pl.DataFrame, judged: pl.DataFrame) -> Claim:
    if claim.id != f"overlap/{claim.cell.corpus}":
        return claim
    here = judged.filter(pl.col("corpus") == claim.cell.corpus)
    if here.is_empty():
        return claim
    pairs = _pairs(here)
    whole = matches.filter(pl.col("corpus") == claim.cell.corpus)
    copies = Recognised.of(whole)
    message, doubt = _counts(pairs), _doubt(pairs)
    control = Control(
        name=PEOPLE,
        outcome="missing" if doubt else "passed",
        reason=f"{message}; {doubt}" if doubt else message,
    )
    changed: dict[str, Any] = {
        "sentence": claim.sentence,
        "why": f"{claim.why}; {control.reason}",
        "controls": [*claim.controls, control],
        "next_step": _next_step(claim, pairs, whole),
    }
    alone = any(pair["open"] == DISMISSED_ALONE for pair in pairs)
    if alone and claim.status in ("clean", "qualified"):
        changed |= _dismissed(claim, pairs, control)
    if copies.by_people and claim.status == "survives":
        pictures = counted(copies.by_people, "picture is a copy", "pictures are copies")
        changed["sentence"] += f" Of these, {pictures} by people's word, not by what was measured."
        if copies.all == copies.by_people:
            changed["why"] = control.reason
    if alone and claim.status == "survives":
        gone = sum(pair["open"] == DISMISSED_ALONE for pair in pairs)
        changed["sentence"] += (
            f" One rater alone dismissed {counted(gone, 'pair', 'pairs')} of pictures: not counted, a "
            "second has to agree."
        )
    changed["sentence"] += _open_words(pairs, copies)
    return claim.model_copy(update=changed)


class Recognised(NamedTuple):
    """Pictures with a copy: all, and those by people's word alone; pictures that one rater calls copied.

    ``alone`` are not counted as copies: a second rater has to confirm them.
    """

    all: int
    by_people: int
    alone: int

    @classmethod
    def of(cls, here: pl.DataFrame) -> Recognised:
        picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
        copies = recognised(here).select(picture, "raters")
        by_tool = set(copies.filter(pl.col("raters") == 0)["picture"])
        every = set(copies["picture"])
        left = map(json.loads, here.filter(pl.col("relation") == Relation.UNDECIDED)["evidence"])
        alone = {
            outcome["benchmark_pixels"]
            for outcome in left
            if not_agreed(Relation.UNDECIDED, outcome) == RAISED_ALONE
        }
        return cls(len(every), len(every - by_tool), len(alone - every))


def _open_words(pairs: Sequence[Mapping[str, Any]], copies: Recognised) -> str:
    """Judgements that could not change the claim, or left it open."""
    message = ""
    if disputed := sum(pair["disputed"] for pair in pairs):
        they = "it counts" if disputed == 1 else "they count"
        message += (
            f" People dispute {counted(disputed, 'pair', 'pairs')} of pictures; {they} nevertheless, "
            "because bytes or pixels are equal."
        )
    if split := sum(pair["open"] == DISAGREE for pair in pairs):
        message += (
            f" Raters disagree about {counted(split, 'pair', 'pairs')} of pictures: not counted."
        )
    if copies.alone:
        other = "other " if copies.all else ""
        called = counted(copies.alone, f"{other}picture a copy", f"{other}pictures copies")
        message += f" One rater alone calls {called}: not counted, a second has to agree."
    return message


def _next_step(claim: Claim, pairs: Sequence[Mapping[str, Any]], whole: pl.DataFrame) -> str:
    steps = list(dict.fromkeys(_SETTLE[pair["open"]] for pair in pairs if pair["open"]))
    undecided = whole.filter(pl.col("relation") == Relation.UNDECIDED)["evidence"]
    settled = all(not_agreed(Relation.UNDECIDED, json.loads(entry)) for entry in undecided)
    if steps and settled and claim.rule == f"{COPIES_KIND}/undecided-left":
        return "; ".join(steps)  # people have already judged them: others have to
    return "; ".join([claim.next_step, *steps])


def _dismissed(
    claim: Claim, pairs: Sequence[Mapping[str, Any]], control: Control
) -> dict[str, Any]:
    """People dismissed all copies, and no second rater confirmed it: that comes first."""
    facts = {
        "both sides have pictures": True,
        "pictures were compared": True,
        "a copy was proven": False,
        "one rater alone dismissed pairs": True,
    }
    rule = decide(COPIES_KIND, facts)
    were = counted(
        sum(pair["dismissed"] for pair in pairs), "pair of pictures", "pairs of pictures"
    )
    return {
        "status": rule.status,
        "rule": rule_id(COPIES_KIND, rule),
        "sentence": f"People dismissed {were} of {claim.cell.benchmark} and {claim.cell.corpus} that "
        f"the tool calls copies or undecided, and no proven copy is left; two raters have to agree.",
        "why": f"{control.reason}; {claim.why}",
        "controls": [control, *claim.controls],
        "next_step": _SETTLE[DISMISSED_ALONE],
    }


def _doubt(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Judgements that a second rater has to confirm; "" if two or more agree on each."""
    dismissed = sum(pair["open"] == DISMISSED_ALONE for pair in pairs)
    unsure = sum(pair["unsure"] for pair in pairs)
    raised = sum(pair["open"] == RAISED_ALONE for pair in pairs)
    split = sum(pair["open"] == DISAGREE for pair in pairs)
    parts = [
        f"one rater alone dismissed {counted(dismissed, 'pair', 'pairs')}" if dismissed else "",
        f"one rater alone calls {counted(raised, 'pair', 'pairs')} copied" if raised else "",
        f"raters disagree about {counted(split, 'pair', 'pairs')}" if split else "",
        f"people are unsure of {counted(unsure, 'copy', 'copies')}" if unsure else "",
    ]
    return "; ".join(part for part in parts if part)


def _pairs(here: pl.DataFrame) -> list[dict[str, Any]]:
    """One entry per pair of pictures, however many questions and corpus items show it."""
    pairs: dict[str, dict[str, Any]] = {}
    for row in here.iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        subject = match_subject(evidence, row["corpus"], row["corpus_id"])
        verdicts, tool = evidence["people"]["verdicts"], evidence["people"]["tool"]
        relation, relations = row["relation"], {RELATIONS[verdict] for verdict in verdicts.values()}
        exact, undecided = row["method"] in BY_DIGEST, relation == Relation.UNDECIDED
        waits = not_agreed(relation, evidence)
        pairs.setdefault(
            subject,
            {
                "verdicts": verdicts,
                "picture": evidence["benchmark_pixels"],
                "changed": tool != relation and not (undecided and waits),
                "unequal": not exact and tool != Relation.SAME_IMAGE,
                "disputed": exact and bool(relations - POSSIBLE_COPIES),
                "dismissed": tool in POSSIBLE_COPIES and relation not in POSSIBLE_COPIES,
                "unsure": tool in COPIES and not exact and relations == {Relation.UNDECIDED},
                "open": waits,
            },
        )
    return list(pairs.values())


def _counts(pairs: Sequence[Mapping[str, Any]]) -> str:
    raters = {rater for pair in pairs for rater in pair["verdicts"]}
    message = f"{counted(len(pairs), 'pair', 'pairs')} judged by " + counted(
        len(raters), "rater", "raters"
    )
    message += ", " + agreement_words(
        verdict_agreement([pair["verdicts"] for pair in pairs], [pair["picture"] for pair in pairs])
    )
    changed = [pair for pair in pairs if pair["changed"]]
    if changed:
        message += (
            f"; people changed the tool's relation of {counted(len(changed), 'pair', 'pairs')}"
        )
    unequal = sum(
        pair["unequal"]
        and Relation.SAME_IMAGE in {RELATIONS[verdict] for verdict in pair["verdicts"].values()}
        for pair in pairs
    )
    if unequal:
        message += (
            f"; {counted(unequal, 'pair', 'pairs')} called exact duplicates differ in bytes and pixels, "
            "and count as transformed copies at most"
        )
    return message


def verdict_agreement(
    verdicts: Sequence[Mapping[str, str]],
    pictures: Sequence[str],
    known: Iterable[str] = RELATIONS,
) -> RaterAgreement | None:
    """Agreement of all raters of matches; None if there is only one."""
    if len({rater for by_rater in verdicts for rater in by_rater}) < 2:
        return None
    codes = {verdict: float(code) for code, verdict in enumerate(known)}
    units = [
        {rater: codes[verdict] for rater, verdict in by_rater.items()} for by_rater in verdicts
    ]
    return agreement(units, pictures)


def agreement_words(agreement: RaterAgreement | None) -> str:
    if agreement is None:
        return "no second rater"
    if not agreement.units:
        return "no pair judged by two"
    shared = f"{counted(agreement.units, 'pair', 'pairs')} judged by several"
    if agreement.value is None:
        return f"{shared}, all alike (kappa is not defined)"
    message = f"{agreement.coefficient} {agreement.value:.2f}"
    if agreement.interval is not None:
        message += f" [{agreement.interval.low:.2f}, {agreement.interval.high:.2f}]"
    return f"{message} over {shared}"


# What people's judgements of texts add to the claim about words: how many, agreement, what changed.


SETTLE = "let a second rater judge these texts (heldout review RUN --kind texts --blind)"
RAISED = "one rater alone calls reworded texts the same"
_WHOLE = (SAME_ITEM, SAME_CAPTION)  # there is nothing to raise


def with_people_on_words(claim: Claim, matches: pl.DataFrame, items: pl.DataFrame) -> Claim:
    """``claim`` (of one corpus) with the judgements of its text matches among its controls.

    ``matches`` are as people judged them (overlap/judgements.py): nothing else is read.
    """
    here = matches.filter(pl.col("corpus") == claim.cell.corpus)
    judged = here.filter(pl.col("evidence").str.json_path_match("$.people").is_not_null())
    if judged.is_empty():
        return claim
    pairs = _text_pairs(judged, dict(items.select("benchmark_id", "cluster").iter_rows()))
    message, raised = _text_message(pairs), any(pair["raised"] for pair in pairs)
    doubt = "; ".join(part for part in (_text_doubt(pairs), RAISED if raised else "") if part)
    control = Control(
        name=PEOPLE,
        outcome="missing" if doubt else "passed",
        reason=f"{message}; {doubt}" if doubt else message,
    )
    changed: dict[str, Any] = {
        "why": f"{claim.why}; {control.reason}",
        "controls": [*claim.controls, control],
    }
    if (raised and claim.status == "qualified") or (doubt and claim.status == "clean"):
        changed |= {"status": "qualified", "next_step": SETTLE}
    elif doubt and claim.next_step == READ_FEW:
        changed["next_step"] = f"{SETTLE}; {READ_FEW}"
    return claim.model_copy(update=changed)


def _text_pairs(judged: pl.DataFrame, clusters: Mapping[str, str]) -> list[dict[str, Any]]:
    """One entry per pair of texts, however many methods, items and corpus items show it."""
    pairs: dict[str, dict[str, Any]] = {}
    for row in judged.iter_rows(named=True):
        people = json.loads(row["evidence"])["people"]
        pair = pairs.setdefault(
            people["subject"],
            {
                "verdicts": people["verdicts"],
                "cluster": clusters[row["benchmark_id"]],
                "changed": False,
                "exact": False,
                "overturned": False,
                "raised": False,
            },
        )
        dismissed = people["tool_degree"] != "none" and row["degree"] == "none"
        pair["overturned"] |= dismissed
        pair["exact"] |= dismissed and row["method"] == "exact"
        pair["changed"] |= people["tool"] != row["relation"]
        # Several raters raise it; of one alone it stays the tool's (overlap/judgements.py).
        same = all(TEXT_RELATIONS[label] == SAME_ITEM for label in people["verdicts"].values())
        held = people["tool"] == row["relation"] and row["relation"] not in _WHOLE
        pair["raised"] |= same and held and row["degree"] != "none"
    return list(pairs.values())


def _text_doubt(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Why dismissed text matches are not settled; "" if two or more raters read each."""
    exact = sum(pair["exact"] for pair in pairs)
    alone = sum(pair["overturned"] and len(pair["verdicts"]) < 2 for pair in pairs)
    if exact:
        return f"they contradict equal words in {counted(exact, 'pair', 'pairs')}"
    return f"one rater alone dismissed {counted(alone, 'text', 'texts')}" if alone else ""


def _text_message(pairs: Sequence[Mapping[str, Any]]) -> str:
    raters = {rater for pair in pairs for rater in pair["verdicts"]}
    agreement = verdict_agreement(
        [pair["verdicts"] for pair in pairs], [pair["cluster"] for pair in pairs], TEXT_RELATIONS
    )
    message = (
        f"{counted(len(pairs), 'pair of texts', 'pairs of texts')} judged by "
        f"{counted(len(raters), 'rater', 'raters')}, {agreement_words(agreement)}"
    )
    changed = sum(pair["changed"] for pair in pairs)
    if changed:
        message += f"; people changed the tool's relation of {counted(changed, 'pair', 'pairs')}"
    return message
