"""report.html: one self-contained file, rebuilt from the run folder alone."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from heldout.detect import Finding
from heldout.report.gallery import pairs_shown
from heldout.store import Run, write_atomic
from heldout.verdict import Claim

_STRENGTH = ["survives", "qualified", "re-attributed", "collapses", "not testable", "clean"]


def write_report(run: Run, findings: Sequence[Finding], claims: Sequence[Claim]) -> Path:
    # Everything in a corpus is somebody else's text: autoescape has no exceptions here.
    environment = Environment(
        loader=PackageLoader("heldout.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    manifest = run.manifest()
    gallery, pairs = pairs_shown(run)
    checked = run.read_json("check.json") if (run.path / "check.json").exists() else None
    page = environment.get_template("report.html.j2").render(
        benchmark=manifest["inputs"]["benchmark"],
        headline=_headline(claims),
        claims=sorted(claims, key=lambda claim: _STRENGTH.index(claim.status)),
        findings={finding.id: finding for finding in findings},
        gallery=gallery,
        pairs=pairs,
        checked=checked,
        dropped=_dropped(run),
        scans=list(manifest["stages"].values()),
        manifest=manifest,
        command=shlex.join(manifest["commands"][-1]),
    )
    path = run.path / "report.html"
    write_atomic(path, page)
    return path


def _headline(claims: Sequence[Claim]) -> tuple[str, str]:
    """The answer to the question in the title, and the status that colours it."""
    statuses = {claim.status for claim in claims}
    if "survives" in statuses:
        return "No.", "survives"
    if statuses == {"clean"}:
        return "As far as exact copies go, yes.", "clean"
    return "It could not be settled.", "qualified"


def _dropped(run: Run) -> list[dict[str, Any]]:
    """Reasons with their counts and one example each; the table itself stays in the run."""
    rows = run.read_table("dropped").to_pylist()
    counts = Counter((row["stage"], row["reason"]) for row in rows)
    example = {(row["stage"], row["reason"]): row for row in reversed(rows)}
    return [
        {"stage": stage, "reason": reason, "count": count, "example": example[stage, reason]}
        for (stage, reason), count in counts.most_common()
    ]
