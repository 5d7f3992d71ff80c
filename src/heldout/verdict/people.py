"""What people's judgements of matches add to a claim: how many, whether they agreed, what they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from heldout.detect.image_overlap import COPIES
from heldout.errors import counted
from heldout.overlap.judged import RELATIONS, SAME, match_subject, recognised
from heldout.stats.agreement import Agreement, agreement
from heldout.verdict.claim import Claim, Control
from heldout.verdict.rules import COPIES as COPIES_KIND
from heldout.verdict.rules import decide, rule_id

PEOPLE = "people"
SETTLE = {
    "equal-dismissed": "look again at the dismissed pairs with equal bytes or pixels (heldout review RUN), "
    "and let a second rater judge them (--blind)",
    "dismissed-alone": "let a second rater judge what was dismissed (heldout review RUN --blind)",
    "recognised-alone": "let a second rater judge what one alone calls a copy (heldout review RUN --blind)",
}
_EXACT = ("bytes", "pixels")


def with_people(claims: Sequence[Claim], matches: pl.DataFrame) -> list[Claim]:
    """Claims of image overlap with the people who judged their matches in the trail.

    ``matches`` are as people judged them (overlap/judged.py): nothing else is read.
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
    copies = Recognised.of(matches.filter(pl.col("corpus") == claim.cell.corpus))
    told = _told(pairs)
    doubt = "; ".join(part for part in (_doubt(pairs), copies.doubt) if part)
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
    elif copies.by_people and claim.status == "survives":
        changed |= _recognised(claim, copies, control)
    return claim.model_copy(update=changed)


class Recognised(NamedTuple):
    """Pictures with a copy: all of them, those that are copies by people's word alone, by one rater's."""

    all: int
    by_people: int
    alone: int

    @classmethod
    def of(cls, here: pl.DataFrame) -> Recognised:
        picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
        copies = recognised(here).select(picture, "raters")
        by_tool = set(copies.filter(pl.col("raters") == 0)["picture"])
        by_two = set(copies.filter(pl.col("raters") > 1)["picture"])
        every = set(copies["picture"])
        return cls(len(every), len(every - by_tool), len(every - by_tool - by_two))

    @property
    def doubt(self) -> str:
        found = counted(self.alone, "picture", "pictures")
        return f"one rater alone calls {found} copied" if self.alone else ""


def _recognised(claim: Claim, copies: Recognised, control: Control) -> dict[str, Any]:
    """Copies that nothing but people's word makes so: how many, and whether anything else stands."""
    whose = "one rater's" if copies.alone == copies.by_people else "people's"
    pictures = counted(copies.by_people, "picture is a copy", "pictures are copies")
    sentence = f"{claim.sentence} Of these, {pictures} by {whose} word, not by what was measured."
    facts = {
        "both sides have pictures": True,
        "pictures were compared": True,
        "one rater alone recognised every copy": copies.alone == copies.all,
        "a copy was proven": True,
    }
    rule = decide(COPIES_KIND, facts)
    measured = copies.all > copies.by_people
    changed: dict[str, Any] = {
        "sentence": sentence,
        "status": rule.status,
        "rule": rule_id(COPIES_KIND, rule),
        "why": f"{claim.why}; {control.reason}" if measured else control.reason,
    }
    if rule.name in SETTLE:
        changed["next_step"] = SETTLE[rule.name]
    elif copies.alone:
        changed["next_step"] = f"{claim.next_step}; {SETTLE['recognised-alone']}"
    return changed


def _dismissed(
    claim: Claim, pairs: Sequence[Mapping[str, Any]], control: Control
) -> dict[str, Any]:
    """No copy is left because people said so, and nobody confirmed it: that comes first."""
    overturned = [pair for pair in pairs if pair["overturned"]]
    equal = any(pair["exact"] for pair in overturned)
    facts = {
        "both sides have pictures": True,
        "pictures were compared": True,
        "one rater alone recognised every copy": False,
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
                "unequal": row["method"] not in _EXACT and evidence["people"]["tool"] != SAME,
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
    unequal = sum(
        pair["unequal"] and SAME in {RELATIONS[one] for one in pair["verdicts"].values()}
        for pair in pairs
    )
    if unequal:
        told += (
            f"; {counted(unequal, 'pair', 'pairs')} called exact duplicates differ in bytes and pixels, "
            "and count as transformed copies at most"
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
