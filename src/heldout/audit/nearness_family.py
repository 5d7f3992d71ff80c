"""Nearness tests of several benchmarks are one family: each run is told the p of the others."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.audit.journey import nearness_findings
from heldout.overlap import read_matches
from heldout.store import Run

SECTION, KEY = "audit", "nearness"  # where the manifest holds them, and `conclude` finds them


def share_nearness(runs: Mapping[str, Run]) -> None:
    """Call when all corpora were searched, before the runs are concluded."""
    found = {name: _p_values(run) for name, run in runs.items()}
    for name, run in runs.items():
        others = sorted(p for other, ps in found.items() if other != name for p in ps)
        if run.manifest().get(SECTION, {}).get(KEY, []) != others:
            run.update(SECTION, {KEY: others})


def _p_values(run: Run) -> list[float]:
    if not run.manifest().get("calibration"):
        return []
    _, grouped = nearness_findings(run, run.frame("items"), read_matches(run))
    return [finding.p for findings in grouped for finding in findings if finding.p is not None]
