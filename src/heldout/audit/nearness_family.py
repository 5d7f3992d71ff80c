"""Nearness tests of several benchmarks are one family: each run is told the p of the others."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.detect.image_nearness import NAME
from heldout.store import Run

SECTION, KEY = "audit", "nearness"  # where the manifest holds them, and `conclude` finds them


def share_nearness(runs: Mapping[str, Run]) -> None:
    """Call when all corpora were searched; claims are corrected when the runs are concluded next."""
    found = {name: _p_values(run) for name, run in runs.items()}
    for name, run in runs.items():
        others = sorted(p for other, ps in found.items() if other != name for p in ps)
        if run.manifest().get(SECTION, {}).get(KEY, []) != others:
            run.update(SECTION, {KEY: others})


def _p_values(run: Run) -> list[float]:
    if not (run.path / "findings.json").exists():
        return []
    findings = run.read_json("findings.json")["findings"]
    return [one["p"] for one in findings if one["detector"] == NAME and one["p"] is not None]
