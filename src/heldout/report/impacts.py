"""The report's section on scores: the differences of every impact study the run folder holds."""

from __future__ import annotations

from typing import Any

from heldout.detect.impact import kept_studies
from heldout.store import Run


def impact_rows(run: Run) -> list[dict[str, Any]]:
    """One per difference, with the file it stands in."""
    return [
        {"file": name, "model": impact["model"], **owed}
        for name, study in kept_studies(run)
        for impact in study["impacts"]
        for owed in impact["owed"]
    ]
