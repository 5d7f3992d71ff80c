"""Recommendations as one run can follow them."""

from __future__ import annotations

import shlex
from typing import Any

from heldout.evidence import Rung
from heldout.store import Run
from heldout.verdict import ACTIONS, REPLACE

LISTED = "; they are listed in actions.jsonl."


def advice_for(run: Run, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An audit lists items in actions.jsonl; without one, `heldout sanitize` makes the clean split.

    Commands are told whole: with this run's folder and, where one is read, this benchmark.
    """
    records = [{**record, "sentence": _whole(record["sentence"], run)} for record in made]
    if (run.path / "actions.jsonl").exists():
        return records
    for record in records:
        record["sentence"] = record["sentence"].replace(LISTED, ".")
    if any(record.get("action") == REPLACE for record in records):
        return records  # a split without what leaked would be empty
    last = max(
        (n for n, record in enumerate(records) if record.get("action") == "remove"), default=None
    )
    if last is not None:
        source = run.manifest()["inputs"]["benchmark"]["source"]
        command = shlex.join(
            ["heldout", "sanitize", source, "--run", str(run.path), "--out", "clean"]
        )
        bare = any(record.get("action") == ACTIONS[Rung.COPY] for record in records)
        also = ", and without the items whose picture alone did" if bare else ""
        records[last]["sentence"] += f" {command} writes the split without what leaked{also}."
    return records


def _whole(sentence: str, run: Run) -> str:
    folder = shlex.quote(str(run.path))
    named = sentence.replace("(heldout review)", f"(heldout review {folder})")
    for verb in ("detect", "review"):
        named = named.replace(f"heldout {verb} RUN", f"heldout {verb} {folder}")
    return named
