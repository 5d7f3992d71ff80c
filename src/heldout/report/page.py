"""report.html: one self-contained file, rebuilt from the run folder alone."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from heldout.detect import Finding
from heldout.overlap.calibration.calibration import Calibration
from heldout.overlap.judged import read_matches
from heldout.report.figures import standalone
from heldout.report.gallery import pairs_shown
from heldout.report.impacts import impact_rows
from heldout.report.models import model_sections, seen_by_a_model
from heldout.report.nearness import agreement, nearness_sections, relation_counts
from heldout.report.visible import visible
from heldout.report.words import word_sections
from heldout.store import Run, empty_table, write_atomic
from heldout.verdict import Claim

_STRENGTH = ["survives", "qualified", "re-attributed", "collapses", "not testable", "clean"]


def write_report(
    run: Run,
    findings: Sequence[Finding],
    claims: Sequence[Claim],
    calibrated: Sequence[Calibration] = (),
) -> Path:
    # Everything in a corpus is somebody else's text: autoescape has no exceptions here.
    environment = Environment(
        loader=PackageLoader("heldout.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    manifest = run.manifest()
    items = _frame(run, "items")
    found = read_matches(run) if run.table_path("matches").exists() else None  # scores alone
    matches = found if found is not None else pl.DataFrame(empty_table("matches"))
    models = model_sections(run)
    near = [
        one for one in manifest["stages"].values() if one["nearest"] or one.get("hashes", False)
    ]
    sections = nearness_sections(calibrated, _names(items), manifest["inputs"]["benchmark"]["name"])
    _write_figures(run, sections)
    gallery, pairs = pairs_shown(run) if found is not None else ([], 0)
    checked = run.read_json("check.json") if (run.path / "check.json").exists() else None
    page = environment.get_template("report.html.j2").render(
        benchmark=manifest["inputs"]["benchmark"],
        headline=_headline(claims, searched=bool(near), seen=seen_by_a_model(models)),
        models=models,
        claims=sorted(claims, key=lambda claim: (claim.idle, _STRENGTH.index(claim.status))),
        findings={finding.id: finding for finding in findings},
        relations={one["corpus"]: relation_counts(items, matches, one["corpus"]) for one in near},
        nearness=sections,
        agreement=agreement(calibrated),
        words=word_sections(
            manifest.get("text", {}), findings, items, matches, _frame_if_there(run, "text_matches")
        ),
        impacts=impact_rows(run),
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


def _write_figures(run: Run, sections: Sequence[dict[str, Any]]) -> None:
    """The page's figures as files of their own, for slides and papers."""
    for number, section in enumerate(sections, start=1):
        for kind, figure in zip(("histogram", "sweep"), section["figures"], strict=False):
            name = f"nearness-{number}-{kind}.svg"
            write_atomic(run.path / "figures" / name, standalone(figure))


def _headline(claims: Sequence[Claim], *, searched: bool, seen: bool = False) -> tuple[str, str]:
    """The answer to the question in the title, and the status that colours it."""
    # Nearness is not a leak and never answers the question, however strong it is.
    # A corpus of words has no copies, and one of pictures no words: that is no open question.
    leaks = [claim for claim in claims if not (claim.id.startswith("nearness/") or claim.idle)]
    statuses = {claim.status for claim in leaks}
    if "survives" in statuses or seen:
        return "No.", "survives"
    if statuses == {"clean"}:
        copies = "copies" if searched else "exact copies"
        kinds = {claim.id.partition("/")[0] for claim in leaks}
        told = [what for kind, what in (("overlap", copies), ("text", "words")) if kind in kinds]
        return f"As far as {' and '.join(told or [copies])} go, yes.", "clean"
    return "It could not be settled.", "qualified"


def _names(items: pl.DataFrame) -> dict[str, str]:
    shown = items.select("image_digests", "image_names").explode("image_digests", "image_names")
    return {digest: name for digest, name in shown.iter_rows() if digest}


def _frame(run: Run, name: str) -> pl.DataFrame:
    frame = pl.from_arrow(run.read_table(name))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _frame_if_there(run: Run, name: str) -> pl.DataFrame | None:
    return _frame(run, name) if run.table_path(name).exists() else None


def _dropped(run: Run) -> list[dict[str, Any]]:
    """Reasons with their counts and one example each; the table itself stays in the run."""
    rows = run.read_table("dropped").to_pylist() if run.table_path("dropped").exists() else []
    counts = Counter((row["stage"], row["reason"]) for row in rows)
    example = {(row["stage"], row["reason"]): row for row in reversed(rows)}
    return [
        {"stage": stage, "reason": reason, "count": count, "example": example[stage, reason]}
        for (stage, reason), count in counts.most_common()
    ]
