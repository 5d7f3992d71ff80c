"""Recommendations as one run can follow them."""

from __future__ import annotations

from typing import Any

from heldout.store import Run

_LISTED = "; they are listed in actions.jsonl."


def advice_for(run: Run, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An audit lists items in actions.jsonl; without one, `heldout sanitize` makes the clean split."""
    if (run.path / "actions.jsonl").exists():
        return made
    told = [{**one, "sentence": one["sentence"].replace(_LISTED, ".")} for one in made]
    last = max((n for n, one in enumerate(told) if one.get("action") == "remove"), default=None)
    if last is not None:
        told[last]["sentence"] += " heldout sanitize writes the split without what leaked."
    return told
