"""What people's judgements of matches add to a claim: how many, whether they agreed, what they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from heldout.detect.image_overlap import COPIES
from heldout.errors import counted
from heldout.overlap.judged import RELATIONS, match_subject
from heldout.stats.agreement import Agreement, agreement
from heldout.verdict.claim import Claim, Control
from heldout.verdict.rules import COPIES as COPIES_KIND
from heldout.verdict.rules import decide, rule_id

PEOPLE = "people"
SETTLE = {
    "equal-dismissed": "look again at the dismissed pairs with equal bytes or pixels (heldout review RUN), "
    "and let a second rater judge them (--blind)",
    "dismissed-alone": "let a second rater judge what was dismissed (heldout review RUN --blind)",
}
_EXACT = ("bytes", "pixels")


def with_people(claims: Sequence[Claim], matches: pl.DataFrame) -> list[Claim]:
    """Claims of image overlap with the people who judged their matches in the trail.

    ``matches`` are as people judged them (overlap/judged.py): nothing else is read.
    """
    judged = matches.filter(pl.col("evidence").str.json_path_match("$.people").is_not_null())
    if judged.is_empty():
        return list(claims)
    return [_with_people(claim, judged) for claim in claims]


def _with_people(claim: Claim, judged: pl.DataFrame) -> Claim:
    if claim.id != f"overlap/{claim.cell.corpus}":
        return claim
    here = judged.filter(pl.col("corpus") == claim.cell.corpus)
    if here.is_empty():
        return claim
    pairs = _pairs(here)
    told, doubt = _told(pairs), _doubt(pairs)
    control = Control(
        name=PEOPLE,
        outcome="missing" if doubt else "passed",
        reason=f"{told}; {doubt}" if doubt else told,
    )
    changed: dict[str, Any] = {
        "why": f"{claim.why}; {control.reason}",
        "controls": [*claim.controls, control],
    }
    if doubt and claim.status in ("clean", "qualified"):
        changed |= _dismissed(claim, pairs, control)
    return claim.model_copy(update=changed)


def _dismissed(
    claim: Claim, pairs: Sequence[Mapping[str, Any]], control: Control
) -> dict[str, Any]:
    """No copy is left because people said so, and nobody confirmed it: that comes first."""
    overturned = [pair for pair in pairs if pair["overturned"]]
    equal = any(pair["exact"] for pair in overturned)
    facts = {
        "both sides have pictures": True,
        "pictures were compared": True,
        "a copy was proven": False,
        "people dismissed equal files": equal,
        "one rater alone dismissed copies": not equal,
    }
    rule = decide(COPIES_KIND, facts)
    were = counted(len(overturned), "pair of pictures", "pairs of pictures")
    return {
        "status": rule.status,
        "rule": rule_id(COPIES_KIND, rule),
        "sentence": f"People dismissed {were} of {claim.cell.benchmark} and {claim.cell.corpus} that were "
        f"found to be copies, and no copy is left; this is not confirmed yet.",
        "why": f"{control.reason}; {claim.why}",
        "controls": [control, *claim.controls],
        "next_step": SETTLE[rule.name],
    }


def _doubt(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Why a benchmark that people cleared is not clean yet: "" where two or more looked at each copy."""
    overturned = [pair for pair in pairs if pair["overturned"]]
    exact = sum(pair["exact"] for pair in overturned)
    alone = sum(len(pair["verdicts"]) < 2 for pair in overturned)
    if exact:
        return f"equal bytes or pixels stand against them in {counted(exact, 'pair', 'pairs')}"
    return f"one rater alone dismissed {counted(alone, 'copy', 'copies')}" if alone else ""


def _pairs(here: pl.DataFrame) -> list[dict[str, Any]]:
    """One entry per pair of pictures, whatever number of questions and corpus items show it."""
    found: dict[str, dict[str, Any]] = {}
    for row in here.iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        subject = match_subject(evidence, row["corpus"], row["corpus_id"])
        found.setdefault(
            subject,
            {
                "verdicts": evidence["people"]["verdicts"],
                "picture": evidence["benchmark_pixels"],
                "changed": evidence["people"]["tool"] != row["relation"],
                "exact": row["method"] in _EXACT,
                "overturned": evidence["people"]["tool"] in COPIES
                and row["relation"] not in COPIES,
            },
        )
    return list(found.values())


def _told(pairs: Sequence[Mapping[str, Any]]) -> str:
    raters = {rater for pair in pairs for rater in pair["verdicts"]}
    told = f"people: {counted(len(pairs), 'pair', 'pairs')} judged by " + counted(
        len(raters), "rater", "raters"
    )
    told += ", " + agreement_words(
        verdict_agreement([pair["verdicts"] for pair in pairs], [pair["picture"] for pair in pairs])
    )
    changed = [pair for pair in pairs if pair["changed"]]
    if changed:
        told += (
            f"; {counted(len(changed), 'relation is', 'relations are')} theirs and not the tool's"
        )
    return told


def verdict_agreement(
    verdicts: Sequence[Mapping[str, str]],
    pictures: Sequence[str],
    known: Iterable[str] = RELATIONS,
) -> Agreement | None:
    """Agreement of all who judged matches; None where there is only one of them."""
    if len({rater for said in verdicts for rater in said}) < 2:
        return None
    codes = {verdict: float(code) for code, verdict in enumerate(known)}
    units = [{rater: codes[verdict] for rater, verdict in said.items()} for said in verdicts]
    return agreement(units, pictures)


def agreement_words(found: Agreement | None) -> str:
    if found is None:
        return "no second rater"
    if not found.units:
        return "no pair judged by two"
    shared = f"{counted(found.units, 'pair', 'pairs')} judged by several"
    if found.value is None:
        return f"{shared}, all alike (kappa is not defined)"
    told = f"{found.coefficient} {found.value:.2f}"
    if found.interval is not None:
        told += f" [{found.interval.low:.2f}, {found.interval.high:.2f}]"
    return f"{told} over {shared}"
