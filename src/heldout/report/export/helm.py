"""Contamination points as HELM's contamination.yaml has them: models × groups, strong or weak, and why.

Fields as helm.benchmark.presentation.contamination reads them (stanford-crfm/helm, commit 07e9da1).
"""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]

from heldout.report.export.case import Case
from heldout.report.first_screen import in_words, is_pair

_LEVELS = {"survives": "strong", "qualified": "weak"}


def helm(case: Case) -> str:
    """One point per model and group, as HELM asks for; corpora are points whose models you name."""
    lines = [
        f"# Contamination of {_plain(case.name)}, by heldout {case.version}.",
        "# groups: the name that HELM's schema gives this benchmark.",
        "# HELM stops at two points for one model and group: name each model once.",
    ]
    points: list[dict[str, Any]] = []
    for cell in case.cells:
        level = _LEVELS.get(cell["status"])
        if level is None or is_pair(cell):
            continue
        if cell["model"] is not None:
            claims = [claim for claim in cell["claims"] if claim["status"] == cell["status"]]
            message = " ".join(claim["sentence"] for claim in claims)
            points.append(_point([cell["model"]], case.name, level, message))
        else:
            lines.append(
                f"# models: []: name the models that were trained on {_plain(cell['corpus'])}."
            )
            message = f"{in_words(cell)} into {cell['corpus']}, by heldout."
            points.append(_point([], case.name, level, message))
    body: str = yaml.safe_dump({"points": points}, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(lines) + "\n---\n" + body


def _point(models: list[str], group: str, level: str, description: str) -> dict[str, Any]:
    return {"models": models, "groups": [group], "level": level, "description": description}


def _plain(name: str) -> str:
    """A name in a comment must not end it."""
    return "".join(sign if sign.isprintable() else " " for sign in name)
