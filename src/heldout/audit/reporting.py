"""The verb report: findings, claims and the page of a run, rebuilt from its tables."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.audit.conclusion import Conclusion, conclude
from heldout.audit.family import renew_corrections
from heldout.detect import Finding
from heldout.report import (
    ReportSettings,
    is_evaluation,
    is_synthesis,
    is_training,
    write_audit_report,
    write_evaluation_report,
    write_synthesis_report,
    write_training_report,
)
from heldout.store import Run
from heldout.verdict import Claim, claims_frame, claims_html, findings_frame

#: runs of other commands than audits, and what writes their pages
_PAGES = (
    (is_synthesis, write_synthesis_report),
    (is_training, write_training_report),
    (is_evaluation, write_evaluation_report),
)


@dataclass(frozen=True)
class Report:
    """What ``heldout.report`` returns.

    Args:
        page: The page, a file to open in a browser.
        run: The run it is of; None for the page over all benchmarks of an audit.
        conclusion: What was concluded anew from the run's tables; None for pages that conclude nothing.
    """

    page: Path
    run: Run | None = None
    conclusion: Conclusion | None = None

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim: its status, and why."""
        return claims_frame(self._claims())

    @property
    def findings(self) -> pl.DataFrame:
        """One row per finding: detector, model or corpus, effect with its interval, p, direction."""
        return findings_frame(map(Finding.model_validate, self._kept("findings")))

    def _claims(self) -> list[Claim]:
        return [Claim.model_validate(record) for record in self._kept("claims")]

    def _kept(self, name: str) -> list[dict[str, Any]]:
        """All that the run holds: of this page and of detectors."""
        if self.run is None or not (self.run.path / f"{name}.json").exists():
            return []
        records: list[dict[str, Any]] = self.run.read_json(f"{name}.json")[name]
        return records

    def as_json(self) -> dict[str, Any]:
        conclusion = self.conclusion
        return {"report": str(self.page)} if conclusion is None else conclusion.as_json()

    def __repr__(self) -> str:
        return f"<Report: {len(self._claims()):,} claims, page {self.page}>"

    def _repr_html_(self) -> str:
        page = html.escape(str(self.page))
        claims = claims_html(self._claims()) if self.conclusion is not None else ""
        return f'{claims}<p>report: <a href="{page}">{page}</a></p>'


def report_run(
    run: str | Path | Run,
    *,
    settings: ReportSettings | None = None,
    quiet: bool = False,
    **values: Any,
) -> Report:
    """Rebuild findings, claims and report.html from the tables of a run; no input is read again.

    ``heldout.report(...)`` is this function, too.

    Args:
        run: A run, its folder, or the output folder of an audit.
        settings: All settings; or give them by name as further arguments.
        quiet: Show no progress.
        **values: Fields of ``heldout.report.ReportSettings``.

    Returns:
        The page, and claims and findings as data frames.
    """
    settings = ReportSettings.choose(settings, values)
    folder = run.path if isinstance(run, Run) else Path(run)
    if (folder / "verdict.json").exists() and not (folder / "manifest.json").exists():
        return Report(write_audit_report(folder, settings))
    opened = run if isinstance(run, Run) else Run.open(folder)
    with opened.writing():
        for is_kind, write in _PAGES:
            if is_kind(opened):
                return Report(write(opened), opened)
        renew_corrections(opened)
        conclusion = conclude(opened, settings=settings, quiet=quiet)
    return Report(conclusion.report, opened, conclusion)
