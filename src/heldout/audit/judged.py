"""What a judge's reading of paraphrases means for the claim about words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.errors import counted
from heldout.verdict import Claim, Control

CROSS_CHECK = "cross-check of paraphrases"


def with_judge(claim: Claim, scanned: Mapping[str, Any]) -> Claim:
    """``claim`` with the judge as one of its controls, where ``scanned`` (the manifest's record of the
    corpus) names one. Its opinion is told, and changes no status: what it called different is already
    out of the tables, and what it called the same is no harder for it."""
    record = scanned.get("judge")
    if record is None or not record["pairs"]:
        return claim
    sentence = judge_sentence(record)
    control = Control(
        name=CROSS_CHECK, outcome="missing" if record["unsure"] else "passed", reason=sentence
    )
    return claim.model_copy(
        update={"controls": [*claim.controls, control], "why": f"{claim.why}; {sentence}"}
    )


def judge_sentence(record: Mapping[str, Any]) -> str:
    """ "m read 9 pairs that may be paraphrases: 5 the same, 3 different (3 count no longer), 1 unsure"."""
    pairs = counted(
        record["pairs"], "pair that may be a paraphrase", "pairs that may be paraphrases"
    )
    message = (
        f"{record['identity']['model']} read {pairs}: {record['same']:,} the same, "
        f"{record['different']:,} different ({record['lowered']:,} count no longer), "
        f"{record['unsure']:,} unsure"
    )
    if record["unread"]:
        reasons = ", ".join(f"{count:,} {why}" for why, count in record["unread"].items())
        message += f" ({reasons})"
    return message
