"""The report's section on scores: the differences of every impact study the run folder holds."""

from __future__ import annotations

from typing import Any

from heldout.detect import kept_studies
from heldout.store import Run


def impact_rows(run: Run) -> list[dict[str, Any]]:
    """One per difference, with the file it stands in."""
    return [
        {"file": name, "model": impact["model"], **owed}
        for name, study in kept_studies(run)
        for impact in study["impacts"]
        for owed in impact["owed"]
    ]


def impact_remarks(run: Run) -> list[dict[str, Any]]:
    """What is to be known of the files behind the differences: labels made elsewhere, grades that
    disagree, empty predictions."""
    remarks = []
    for name, study in kept_studies(run):
        labels = study.get("labels")
        if labels is not None:
            message = f"{labels['note']} ({labels['source']}, sha256 {labels['sha256'][:12]})"
            remarks.append({"file": name, "model": "", "sentence": message})
        for model, sentences in study.get("remarks", {}).items():
            remarks += [
                {"file": name, "model": model, "sentence": sentence} for sentence in sentences
            ]
    return remarks
