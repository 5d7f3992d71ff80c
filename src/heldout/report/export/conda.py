"""Rows for the Data Contamination Database of the CONDA workshop (contamination_report.csv, `;`).

Columns as of its file since pull request 17 (commit 99a8650), which added Version; rows compared with those
of pull requests 18 and 21. Percentages are of items; 0 is evidence that nothing leaked, an empty cell is
not known. A dataset of the hub goes by its path there. Reference and PR are the submitter's.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from heldout.report.export.case import Case
from heldout.report.first_screen import is_pair

COLUMNS = (
    "Evaluation Dataset",
    "Subset",
    "Contaminated Source",
    "Version",
    "Model or corpus",
    "Train Split",
    "Development Split",
    "Test Split",
    "Approach",
    "Reference",
    "PR",
)
_SPLITS = {
    "train": "Train Split",
    "validation": "Development Split",
    "valid": "Development Split",
    "val": "Development Split",
    "dev": "Development Split",
}


def conda(case: Case) -> str:
    """What survived, and what is clean; an open question is no entry."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, delimiter=";", lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(row for cell in case.cells if (row := _row(case, cell)) is not None)
    return out.getvalue()


def _row(case: Case, cell: dict[str, Any]) -> dict[str, str] | None:
    if is_pair(cell) or cell["status"] not in ("survives", "clean"):
        return None
    split = _SPLITS.get(str(case.benchmark.get("split") or "").lower(), "Test Split")
    common = {"Evaluation Dataset": case.hub or case.name}
    if cell["corpus"] is not None:
        share = 100 * cell["leak_rate"]["value"]
        return {
            **common,
            "Contaminated Source": cell["corpus"],
            "Model or corpus": "corpus",
            split: f"{share:.4g}",
            "Approach": "data-based",
        }
    if cell["status"] == "clean":  # clean at an effect is not a share of 0
        return None
    known = case.manifest.get("models", {}).get(cell["model"], {})
    return {
        **common,
        "Contaminated Source": str(known.get("model") or cell["model"]),
        "Version": str(known.get("revision") or ""),
        "Model or corpus": "model",
        "Approach": "model-based",
    }
