"""Contamination points as HELM's contamination.yaml has them: models × groups, strong or weak, and why.

Fields as helm.benchmark.presentation.contamination reads them (stanford-crfm/helm, commit 07e9da1).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

from heldout.errors import percent
from heldout.report._cell_words import in_words, is_pair, no_effect, nothing_found, target
from heldout.report._first_screen import cell_summary
from heldout.report._next_steps import LISTED
from heldout.report._statuses import MEANINGS, detectable, status_words
from heldout.report._summaries import as_row, escaped
from heldout.report.export._case import ExportCase
from heldout.report.outline import SHOWN_EFFECTS, effect_words

_LEVELS = {"survives": "strong", "qualified": "weak"}


def helm(case: ExportCase) -> str:
    """One point per model and group, as HELM asks for; corpora are points whose models you name."""
    lines = [
        f"# Contamination of {_plain(case.name)}, by heldout {case.version}.",
        "# groups: the name that HELM's schema gives this benchmark.",
        "# HELM stops at two points for one model and group: name each model once.",
    ]
    points: list[dict[str, Any]] = []
    for cell in case.cells:
        level = _LEVELS.get(cell["status"])
        if level is None or is_pair(cell) or nothing_found(cell) or no_effect(cell):
            continue
        if cell["model"] is not None:
            claims = [claim for claim in cell["claims"] if claim["status"] == cell["status"]]
            message = " ".join(claim["sentence"] for claim in claims)
            points.append(_point([cell["model"]], case.name, level, message))
        else:
            lines.append(
                f"# models: []: name the models that were trained on {_plain(cell['corpus'])}."
            )
            message = f"{cell['corpus']}: {in_words(cell)}, by heldout."
            points.append(_point([], case.name, level, message))
    body: str = yaml.safe_dump({"points": points}, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(lines) + "\n---\n" + body


def _point(models: list[str], group: str, level: str, description: str) -> dict[str, Any]:
    return {"models": models, "groups": [group], "level": level, "description": description}


def _plain(name: str) -> str:
    """A name in a comment must not end it."""
    return "".join(sign if sign.isprintable() else " " for sign in name)


# A section for a dataset card on the Hugging Face hub: what leaked, and what to do about it.


def hf_card(case: ExportCase) -> str:
    """Markdown to paste below the card's other sections; it has no header of its own."""
    day = case.finished.date().isoformat()
    lines = [
        "## Contamination",
        "",
        f"Audited with heldout {case.version} on {day}: {case.benchmark['items']:,} items, revision "
        f"`{case.benchmark['fingerprint'][:12]}`.",
        "",
        as_row("against", "verdict", "in words", "measured, with 95 % interval"),
        "|---|---|---|---|",
    ]
    least = detectable(case.run)
    findings = {finding["id"]: finding for finding in case.findings}
    for cell in case.cells:
        if is_pair(cell):
            continue
        kind, name = target(cell)
        status = status_words(cell["status"], cell_summary(cell, least)["least"])
        lines.append(as_row(f"{kind} {name}", status, in_words(cell), _around(cell, findings)))
    used = sorted({cell["status"] for cell in case.cells}, key=list(MEANINGS).index)
    lines += [
        "",
        "; ".join(f"*{status_words(status)}*: {MEANINGS[status]}" for status in used) + ".",
        "",
    ]
    # Readers of a card have neither the run nor its files.
    advice = [
        record["sentence"].replace(LISTED, ".").replace(" (heldout review)", "")
        for record in case.advice
        if record["kind"] in ("items", "model")
    ]
    lines += [f"- {escaped(sentence)}" for sentence in advice]
    if advice:
        lines.append("")
    lines += [
        "Not finding a leak does not prove that there is none; the report states its limits.",
        "",
    ]
    return "\n".join(lines)


def _around(cell: Mapping[str, Any], findings: Mapping[str, Mapping[str, Any]]) -> str:
    """The interval of a corpus's rate; of a model, the effects that its verdict rests on with theirs."""
    rate = cell["leak_rate"]
    if rate and rate["leaked"]:
        interval = f"[{percent(rate['interval']['low'])}, {percent(rate['interval']['high'])}]"
        return f"{percent(rate['value'])} {interval} of items"
    if cell["model"] is None:
        return ""
    resting = (claim for claim in cell["claims"] if claim["status"] == cell["status"])
    mine = [findings[key] for claim in resting for key in claim["findings"] if key in findings]
    return "; ".join(map(effect_words, mine[:SHOWN_EFFECTS]))


# Rows for the Data Contamination Database of the CONDA workshop (contamination_report.csv, `;`).
#
# Columns as of its file since pull request 17 (commit 99a8650), which added Version; rows compared with those
# of pull requests 18 and 21. Percentages are of items; 0 is evidence that nothing leaked, an empty cell is
# not known. A dataset of the hub goes by its path there. Reference and PR are the submitter's.


COLUMNS = (
    "Evaluation Dataset",
    "Subset",
    "Contaminated Source",
    "Version",
    "Model or corpus",
    "Train Split",
    "Development Split",
    "Test Split",
    "Approach",
    "Reference",
    "PR",
)
_SPLITS = {
    "train": "Train Split",
    "validation": "Development Split",
    "valid": "Development Split",
    "val": "Development Split",
    "dev": "Development Split",
}


def conda(case: ExportCase) -> str:
    """Entries for claims that survive or are clean; an open question is not entered."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, delimiter=";", lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(row for cell in case.cells if (row := _row(case, cell)) is not None)
    return out.getvalue()


def _row(case: ExportCase, cell: dict[str, Any]) -> dict[str, str] | None:
    if is_pair(cell) or cell["status"] not in ("survives", "clean"):
        return None
    split = _SPLITS.get(str(case.benchmark.get("split") or "").lower(), "Test Split")
    common = {"Evaluation Dataset": case.hub or case.name}
    if cell["corpus"] is not None:
        share = 100 * cell["leak_rate"]["value"]
        return {
            **common,
            "Contaminated Source": cell["corpus"],
            "Model or corpus": "corpus",
            split: f"{share:.4g}",
            "Approach": "data-based",
        }
    if cell["status"] == "clean":  # clean at an effect is not a share of 0
        return None
    known = case.manifest.get("models", {}).get(cell["model"], {})
    return {
        **common,
        "Contaminated Source": str(known.get("model") or cell["model"]),
        "Version": str(known.get("revision") or ""),
        "Model or corpus": "model",
        "Approach": "model-based",
    }
