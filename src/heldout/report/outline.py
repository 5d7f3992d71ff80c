"""What a run comes to, in a few lines for a terminal: one row per corpus and model, then what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import percent
from heldout.report._cell_words import (
    in_words,
    is_pair,
    not_compared,
    same_source,
    speaking_claims,
    target,
)
from heldout.report._first_screen import cell_summary
from heldout.report._models import tried_models
from heldout.report._next_steps import next_steps
from heldout.report._scores_owed import corrected_of
from heldout.report._statuses import DetectableEffect, detectable, plain_status
from heldout.report.audit_page import run_folders
from heldout.store import Run, read_document
from heldout.verdict import benchmark_verdict, recommend

STEPS = 4  # the report has all
SHOWN_EFFECTS = 2  # of a model, in one row
_VERB = re.compile(r"\bheldout (\w+)")


@dataclass(frozen=True)
class OutlineRow:
    benchmark: str
    subject: str  # "corpus web" or "model a"
    status: str  # as stored
    words: str  # its plain name
    number: str  # what was measured
    verb: str  # of the next command, or empty


@dataclass(frozen=True)
class Outline:
    rows: list[OutlineRow]
    steps: list[dict[str, Any]]  # a sentence each, with commands to copy


def outline_of(run: Run) -> Outline:
    """Of one concluded run."""
    name = run.manifest()["inputs"]["benchmark"]["name"]
    verdict = benchmark_verdict(run, name, corrected_of(run), tried_models(run))
    return outline([cell.as_json() for cell in verdict.cells], [run], recommend([verdict]))


def outline_of_audit(output: Path) -> Outline:
    """Of the output folder of a finished audit."""
    verdict = read_document(output / "verdict.json")
    runs = [Run.open(output / folder) for folder in run_folders(output, verdict).values()]
    return outline(verdict["cells"], runs, verdict["recommendations"])


def outline(
    cells: Iterable[Mapping[str, Any]], runs: Sequence[Run], advice: Sequence[Mapping[str, Any]]
) -> Outline:
    """``cells`` and ``advice`` as verdict.json has them."""
    least = {claim: effect for run in runs for claim, effect in detectable(run).items()}
    findings = {finding["id"]: finding for run in runs for finding in _findings(run)}
    single = sorted(
        (cell for cell in cells if not is_pair(cell)), key=lambda cell: cell["corpus"] is None
    )
    rows = [_row(cell, least, findings) for cell in single]
    return Outline(rows, next_steps(runs, advice)[:STEPS])


def _findings(run: Run) -> list[dict[str, Any]]:
    if not (run.path / "detections.json").exists():
        return []
    findings: list[dict[str, Any]] = run.read_json("detections.json")["findings"]
    return findings


def _row(
    cell: Mapping[str, Any],
    least: Mapping[str, DetectableEffect],
    findings: Mapping[str, Mapping[str, Any]],
) -> OutlineRow:
    kind, name = target(cell)
    speaking = [claim for claim in speaking_claims(cell) if claim["status"] == cell["status"]]
    words = plain_status(cell["status"], cell_summary(cell, least)["least"])
    if kind == "corpus":
        number, verb = _of_corpus(cell)
    else:
        mine = [findings[key] for claim in speaking for key in claim["findings"] if key in findings]
        number = "; ".join(map(effect_words, mine[:SHOWN_EFFECTS])) or _shortened(
            cell_summary(cell, least)["why"]
        )
        verb = next(iter(_verbs(claim["next_step"] for claim in speaking)), "")
    return OutlineRow(cell["benchmark"], f"{kind} {name}", cell["status"], words, number, verb)


def _shortened(words: str, most: int = 100) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _of_corpus(cell: Mapping[str, Any]) -> tuple[str, str]:
    rate = cell["leak_rate"]
    if rate and rate["leaked"]:
        bounds = rate["interval"]
        interval = f"{percent(bounds['low'])} – {percent(bounds['high'])}"
        undecided = rate.get("possible")
        more = f"; up to {undecided['leaked']:,} with undecided ones" if undecided else ""
        number = f"{rate['leaked']:,} of {rate['items']:,} items, {percent(rate['value'])} ({interval}){more}"
        number += not_compared(cell)
        if rate["leaked"] == rate["items"]:
            return number, "synth"  # a split without them would be empty
        return number, "sanitize, review" if undecided else "sanitize"
    steps = (claim["next_step"] for claim in cell["claims"] if claim["status"] == cell["status"])
    # The status says already that nothing was found.
    number = (
        f"0 of {rate['items']:,} items{same_source(cell)}{not_compared(cell)}"
        if rate and cell["status"] == "clean"
        else in_words(cell)
    )
    return number, next(iter(_verbs(steps)), "")


def effect_words(finding: Mapping[str, Any]) -> str:
    """An effect with its interval, and whether that of the references is subtracted."""
    effect = finding["effect"]
    than = " against references" if effect["name"].endswith("minus that of the references") else ""
    return f"{finding['detector']} {effect['value']:+.2f} [{effect['low']:+.2f}, {effect['high']:+.2f}]{than}"


def _verbs(sentences: Iterable[str]) -> list[str]:
    return [verb[1] for sentence in sentences if (verb := _VERB.search(sentence))]
