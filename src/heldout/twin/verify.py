"""The verifier: a model that sees the new picture, reasons, and ends with KEEP or REJECT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from heldout.benchmark.grading.clean import CutError, without_thoughts
from heldout.image import FileOnDisk, ImageError, ImageRef, byte_digest
from heldout.model.asking.prompts import Journal, Replied, ask_prompts
from heldout.model.request import CUT, REFUSED, Asker, Reply
from heldout.store import Run
from heldout.twin.people import KEEP, REJECT
from heldout.twin.prompts import verify_prompt

UNREAD = "unread"  # the verifier was asked, and what it said is no verdict
NOT_ASKED = "not asked"
_VERDICT = re.compile(r"(?:(?:final )?(?:answer|verdict|decision)\s*[:=]\s*)?(KEEP|REJECT)", re.I)
_MARKS = "*_`#>\"' \t.!"
_LONGEST_REASON = 4000


class Verdict(NamedTuple):
    """``verdict``: keep, reject, unread or not asked; ``reason``: its reasoning, or what went wrong."""

    verdict: str
    reason: str


def verify(
    run: Run, rendered: Sequence[dict[str, Any]], verifier: Asker, *, quiet: bool = False
) -> tuple[dict[str, Verdict], Replied]:
    prompts = {
        row["id"]: verify_prompt(
            row["id"], ImageRef(row["picture"], FileOnDisk(str(run.path / row["picture"]))),
            row["question"], row["options"], row["new_answer"],
        )
        for row in rendered
    }  # fmt: skip
    journal = Journal(run.path / "stages" / "twin" / "verify.jsonl")
    answered = ask_prompts(
        verifier,
        prompts,
        journal,
        _content,
        stage="twin filter",
        title="verifying",
        unit="twins",
        quiet=quiet,
    )
    verdicts = {name: read_verdict(reply) for name, reply in answered.replies.items()}
    for one in answered.lost.values():
        verdicts[one.id] = Verdict(NOT_ASKED, f"{one.reason}: {one.detail}")
    return verdicts, answered


def read_verdict(reply: Reply) -> Verdict:
    """Strict: the last line is the one word and nothing else; anything else keeps nothing."""
    if reply.finish == REFUSED:
        return Verdict(UNREAD, f"refused: {reply.text:.200}")
    if reply.finish == CUT:
        return Verdict(UNREAD, "cut off before its verdict")
    try:
        text = without_thoughts(reply.text)
    except CutError:
        return Verdict(UNREAD, "cut off while thinking")
    lines = [line.strip() for line in text.splitlines() if line.strip(_MARKS)]
    if not lines:
        return Verdict(UNREAD, "empty")
    found = _VERDICT.fullmatch(lines[-1].replace("*", "").strip(_MARKS))
    if found is None:
        return Verdict(UNREAD, f"no verdict in the last line: {lines[-1]!r:.120}")
    reason = "\n".join(lines[:-1])[-_LONGEST_REASON:]
    return Verdict(KEEP if found[1].upper() == "KEEP" else REJECT, reason)


def _content(ref: ImageRef) -> str:
    try:
        return byte_digest(ref.read())
    except ImageError:  # the backend drops it with the reason
        return f"missing:{ref.name}"
