"""report.md: the report's first screen and claims as text, for pull requests and terminals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.cure import JunitCase, junit
from heldout.report._cell_words import is_pair, target
from heldout.report._reproduce import visible, without_home
from heldout.report._statuses import status_words
from heldout.verdict import Claim, is_leak

_MARKS = re.compile(r"([\\`*_\[\]<>|#])")


def escaped(words: str) -> str:
    """Untrusted text as plain text: no markup, no line breaks."""
    return _MARKS.sub(r"\\\1", str(visible(without_home(" ".join(words.split())))))


def as_row(*cells: str) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"


def report_markdown(
    benchmark: Mapping[str, Any],
    answer: str,
    screen: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    cells: Sequence[Mapping[str, Any]],
    claims: Sequence[Claim],
    commands: Sequence[str],
    lacking: str,
    remarks: Sequence[tuple[str, str]] = (),
) -> str:
    """``remarks``: remarks on recorded files, by the model or file they are about."""
    lines = [
        f"# Is “{escaped(benchmark['name'])}” still held out? {escaped(answer)}",
        "",
        escaped(screen["sentence"]),
        "",
        f"{benchmark['items']:,} items, revision `{benchmark['fingerprint'][:12]}`.",
        "",
    ]
    sure = [*screen["sure"], *filter(None, [screen["measured"]])]
    lines += [f"- {escaped(sentence)}" for sentence in sure]
    owed = [
        f"{difference['model']}: "
        + "; ".join(filter(None, (difference.get(name) for name in ("points", "sentence", "sure"))))
        for difference in screen["owed"]
    ]
    lines += [f"- Score: {escaped(line)}" for line in owed or [lacking]]
    for step in (*steps, *screen["advice"]):
        lines.append(f"- Do: {escaped(step['sentence'])}")
        lines += [f"  `{command}`" for command in step.get("commands", ())]
    lines += [f"- Recorded: {escaped(about)}: {escaped(remark)}" for about, remark in remarks]
    lines += ["", "| against | verdict | in words |", "|---|---|---|"]
    record = {
        (row["kind"], row["name"]): cell
        for row in screen["grid"]["rows"]
        for cell in row["cells"]
        if cell
    }
    for cell in cells:
        if not is_pair(cell):
            kind, name = target(cell)
            shown = record[kind, name]
            rate = f" ({shown['rate']})" if shown["rate"] else ""
            # Without a claim below, this is the only place that says why.
            why = "" if cell["claims"] or not shown["why"] else f": {shown['why']}"
            verdict = status_words(cell["status"], shown["least"])
            lines.append(as_row(f"{kind} {name}", verdict, shown["words"] + rate + why))
    lines += ["", "## Claims", ""]
    for claim in claims:
        lines += [
            f"**{status_words(claim.status)}** {escaped(claim.sentence)}",
            "",
            f"Why: {escaped(claim.why)}.",
            "",
        ]
        lines += [
            f"- {claim.ended(control)}: {escaped(control.name)}: {escaped(control.reason)}"
            for control in claim.controls
        ]
        if claim.next_step:
            lines += ["", f"→ {escaped(claim.next_step)}."]
        lines.append("")
    # Four spaces make a block of code whatever the commands hold.
    lines += ["## Reproduce", "", *(f"    {' '.join(command.split())}" for command in commands), ""]
    return "\n".join(lines)


# junit.xml: one test case per claim, for CI: a leak that survives fails, an open question is skipped.


def claims_junit(benchmark: str, claims: Sequence[Claim]) -> bytes:
    return junit(f"heldout {benchmark}", [_case(claim) for claim in claims if not claim.idle])


def _case(claim: Claim) -> JunitCase:
    message = f"{claim.why}\n" + "\n".join(
        f"{claim.ended(control)}: {control.name}: {control.reason}" for control in claim.controls
    )
    if claim.status == "survives" and is_leak(claim):
        return JunitCase(claim.id, (claim.sentence, message), None)
    if claim.status in ("qualified", "not testable"):
        return JunitCase(claim.id, None, None, f"{claim.status}: {claim.why}")
    return JunitCase(claim.id, None, None)
