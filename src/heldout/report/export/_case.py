"""One finished run as exports read it: what was audited, what was found, by which methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from heldout.benchmark import hub_name
from heldout.errors import InputError
from heldout.report._scores_owed import corrected_of
from heldout.store import Run
from heldout.verdict import benchmark_verdict, recommend


@dataclass(frozen=True)
class ExportCase:
    run: Run
    manifest: Mapping[str, Any]
    cells: list[dict[str, Any]]  # as in verdict.json
    findings: list[dict[str, Any]]
    corrected: Mapping[str, Any]
    advice: list[dict[str, Any]]  # as in verdict.json: no folder of this machine is named

    @property
    def benchmark(self) -> Mapping[str, Any]:
        known: Mapping[str, Any] = self.manifest["inputs"]["benchmark"]
        return known

    @property
    def name(self) -> str:
        return str(self.benchmark["name"])

    @property
    def hub(self) -> str | None:
        """Its name on the Hugging Face hub, if it was read from there."""
        return hub_name(str(self.benchmark["source"]).partition("#")[0])

    @property
    def version(self) -> str:
        return str(self.manifest["packages"].get("heldout", "unknown"))

    @property
    def finished(self) -> datetime:
        """When the run last changed: exports of one run are the same whenever they are made."""
        return datetime.fromisoformat(self.manifest.get("updated", self.manifest["created"]))


def open_case(run: Run) -> ExportCase:
    for name in ("claims.json", "findings.json"):
        if not (run.path / name).exists():
            raise InputError(
                f"{run.path / name} does not exist: run heldout report {run.path} first"
            )
    run.verify()
    manifest = run.manifest()
    corrected = corrected_of(run)
    verdict = benchmark_verdict(run, manifest["inputs"]["benchmark"]["name"], corrected)
    return ExportCase(
        run,
        manifest,
        [cell.as_json() for cell in verdict.cells],
        run.read_json("findings.json")["findings"],
        corrected,
        recommend([verdict]),
    )
