"""A section for a dataset card on the Hugging Face hub: what leaked, and what to do about it."""

from __future__ import annotations

from heldout.report.advice import LISTED
from heldout.report.environment import percent
from heldout.report.export.case import Case
from heldout.report.first_screen import in_words, is_pair, target
from heldout.report.markdown import as_row, escaped
from heldout.report.page import MEANINGS


def hf_card(case: Case) -> str:
    """Markdown to paste below the card's other sections; it has no header of its own."""
    day = case.finished.date().isoformat()
    lines = [
        "## Contamination",
        "",
        f"Audited with heldout {case.version} on {day}: {case.benchmark['items']:,} items, revision "
        f"`{case.benchmark['fingerprint'][:12]}`.",
        "",
        as_row("against", "verdict", "in words", "95 % interval"),
        "|---|---|---|---|",
    ]
    for cell in case.cells:
        if is_pair(cell):
            continue
        kind, name = target(cell)
        rate = cell["leak_rate"]
        around = (
            f"{percent(rate['interval']['low'])} – {percent(rate['interval']['high'])} of items"
            if rate and rate["leaked"]
            else ""
        )
        lines.append(as_row(f"{kind} {name}", cell["status"], in_words(cell), around))
    used = sorted({cell["status"] for cell in case.cells}, key=list(MEANINGS).index)
    lines += ["", "; ".join(f"*{status}*: {MEANINGS[status]}" for status in used) + ".", ""]
    # Who reads a card has neither the run nor its files.
    advice = [
        record["sentence"].replace(LISTED, ".").replace(" (heldout review)", "")
        for record in case.advice
        if record["kind"] in ("items", "model")
    ]
    lines += [f"- {escaped(sentence)}" for sentence in advice]
    if advice:
        lines.append("")
    lines += [
        "Not finding a leak does not prove that there is none; the report tells its limits.",
        "",
    ]
    return "\n".join(lines)
