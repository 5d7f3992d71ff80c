"""What people's judgements of texts add to the claim about words: how many, agreement, what changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from heldout.errors import counted
from heldout.overlap import SAME_CAPTION, SAME_ITEM, TEXT_RELATIONS
from heldout.verdict.claim import Claim, Control
from heldout.verdict.people import PEOPLE, agreement_words, verdict_agreement

SETTLE = "let a second rater judge these texts (heldout review RUN --kind texts --blind)"
RAISED = "one rater alone calls reworded texts the same"
_WHOLE = (SAME_ITEM, SAME_CAPTION)  # there is nothing to raise


def with_people_on_words(claim: Claim, matches: pl.DataFrame, items: pl.DataFrame) -> Claim:
    """``claim`` (of one corpus) with the people who judged its text matches in the trail.

    ``matches`` are as people judged them (overlap/judgements.py): nothing else is read.
    """
    here = matches.filter(pl.col("corpus") == claim.cell.corpus)
    judged = here.filter(pl.col("evidence").str.json_path_match("$.people").is_not_null())
    if judged.is_empty():
        return claim
    pairs = _pairs(judged, dict(items.select("benchmark_id", "cluster").iter_rows()))
    message, raised = _told(pairs), any(pair["raised"] for pair in pairs)
    doubt = "; ".join(part for part in (_doubt(pairs), RAISED if raised else "") if part)
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
    return claim.model_copy(update=changed)


def _pairs(judged: pl.DataFrame, clusters: Mapping[str, str]) -> list[dict[str, Any]]:
    """One entry per pair of texts, whatever number of methods, items and corpus items show it."""
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
        same = all(TEXT_RELATIONS[said] == SAME_ITEM for said in people["verdicts"].values())
        held = people["tool"] == row["relation"] and row["relation"] not in _WHOLE
        pair["raised"] |= same and held and row["degree"] != "none"
    return list(pairs.values())


def _doubt(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Why words that people dismissed are not out of the world: "" where two or more read each."""
    exact = sum(pair["exact"] for pair in pairs)
    alone = sum(pair["overturned"] and len(pair["verdicts"]) < 2 for pair in pairs)
    if exact:
        return f"equal words stand against them in {counted(exact, 'pair', 'pairs')}"
    return f"one rater alone dismissed {counted(alone, 'text', 'texts')}" if alone else ""


def _told(pairs: Sequence[Mapping[str, Any]]) -> str:
    raters = {rater for pair in pairs for rater in pair["verdicts"]}
    agreement = verdict_agreement(
        [pair["verdicts"] for pair in pairs], [pair["cluster"] for pair in pairs], TEXT_RELATIONS
    )
    message = (
        f"people: {counted(len(pairs), 'pair of texts', 'pairs of texts')} judged by "
        f"{counted(len(raters), 'rater', 'raters')}, {agreement_words(agreement)}"
    )
    changed = sum(pair["changed"] for pair in pairs)
    if changed:
        message += f"; {counted(changed, 'relation is', 'relations are')} theirs and not the tool's"
    return message
