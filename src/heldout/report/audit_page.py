"""OUTPUT/report.html of an audit: every benchmark against every corpus and model, from verdict.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from heldout.errors import InputError
from heldout.report.environment import templates
from heldout.report.first_screen import first_screen
from heldout.report.page import MEANINGS
from heldout.report.scores_owed import LACKING, have_seen, score_rows
from heldout.store import write_atomic

_ANSWERS = {
    "survives": "No.",
    "qualified": "It could not be settled.",
    "clean": "As far as these methods see, yes.",
}


def write_audit_report(output: Path) -> Path:
    """``output`` holds verdict.json and one run folder per benchmark."""
    source = output / "verdict.json"
    if not source.exists():
        raise InputError(f"{source} does not exist: has this audit finished?")
    verdict = json.loads(source.read_text())
    # The folder of a benchmark that the audit file no longer names may still lie there.
    names = list(verdict["corrected"])
    folders = {name: folder for name, folder in _folders(output).items() if name in names}
    screen = first_screen(verdict["cells"], verdict["recommendations"], verdict["corrected"])
    page = (
        templates()
        .get_template("audit.html.j2")
        .render(
            answer=_answer(verdict["cells"]),
            screen=screen,
            lacking=LACKING,
            meanings=MEANINGS,
            benchmarks=[{"name": name, "answer": _answer(_of(verdict, name))} for name in names],
            links={name: f"{quote(folder)}/report.html" for name, folder in folders.items()},
            scores=[
                {**row, "benchmark": name}
                for name, corrected in verdict["corrected"].items()
                for row in score_rows(corrected, have_seen(verdict["cells"], name))
            ],
            leak_labels=[one["labels"] for one in verdict["corrected"].values() if "labels" in one],
            family=verdict["family"],
            datasets=_datasets(output),
            audit=_audit_file(output, folders),
            scripts=[],
        )
    )
    path = output / "report.html"
    write_atomic(path, page)
    return path


def _of(verdict: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [cell for cell in verdict["cells"] if cell["benchmark"] == name]


def _answer(cells: list[dict[str, Any]]) -> tuple[str, str]:
    """The most pressing status of all cells; not testable alone settles nothing."""
    statuses = {cell["status"] for cell in cells if " & " not in (cell["model"] or "")}
    if "survives" in statuses:
        return _ANSWERS["survives"], "survives"
    told = statuses - {"not testable"}
    clean = bool(told) and told <= {"clean", "re-attributed", "collapses"}
    status = "clean" if clean else "qualified"
    return _ANSWERS[status], status


def _folders(output: Path) -> dict[str, str]:
    """Run folders below, by the benchmark they are about."""
    found = {}
    for path in sorted(output.glob("*/manifest.json")):
        named = json.loads(path.read_text()).get("inputs", {}).get("benchmark")
        if named:
            found[named["name"]] = path.parent.name
    return found


def _datasets(output: Path) -> list[dict[str, Any]]:
    """Fresh items that this audit made, with a way to their pages."""
    plan = output / "plan.json"
    steps = json.loads(plan.read_text())["steps"] if plan.exists() else []
    planned = [step["benchmark"] for step in steps if step["stage"] == "synth"]
    datasets: dict[str, dict[str, Any]] = {}
    for path in sorted(output.glob("*/manifest.json")):
        name = json.loads(path.read_text()).get("synth", {}).get("settings", {}).get("name")
        page, funnel = path.with_name("report.html"), path.parent / "synth" / "funnel.json"
        if name in planned and page.exists() and funnel.exists():
            step = json.loads(funnel.read_text())["steps"][-1]
            link = f"{quote(path.parent.name)}/report.html"
            datasets[name] = {
                "name": name,
                "link": link,
                "left": step["left"],
                "stage": step["name"],
            }
    return [datasets[name] for name in planned if name in datasets]


def _audit_file(output: Path, folders: dict[str, str]) -> str:
    for folder in folders.values():
        copy = output / folder / "audit.yaml"
        if copy.exists():
            return copy.read_text()
    return ""
