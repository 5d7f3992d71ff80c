"""A run folder as a scan leaves it, and files of predictions, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout.detect.impact import Impact, Line
from heldout.store import Run, make_table


def make_run(
    folder: Path, items: Sequence[dict[str, Any]], matches: Sequence[dict[str, Any]]
) -> Run:
    """A run folder as a scan leaves it, of items and matches made by hand."""
    run = Run.create(folder, command=["test"])
    run.update("inputs", {"benchmark": {"name": "bench", "fingerprint": "0", "items": len(items)}})
    run.write_table(
        "items",
        make_table(
            "items",
            (
                {
                    "position": place,
                    "cluster": one["benchmark_id"],
                    "question": "q",
                    "options": [],
                    "answer": "yes",
                    "image_names": [],
                    "image_digests": ["x"],
                    "metadata": "{}",
                    **one,
                }
                for place, one in enumerate(items)
            ),
        ),
    )
    run.write_table(
        "matches",
        make_table(
            "matches",
            (
                {
                    "image_index": 0,
                    "corpus": "train",
                    "corpus_id": "c",
                    "method": "bytes",
                    "similarity": 1.0,
                    "degree": "hard",
                    "relation": "same image",
                    "transform": "none",
                    "modality": "image only",
                    "label_relation": "unknown",
                    "evidence": "{}",
                    **one,
                }
                for one in matches
            ),
        ),
    )
    return run


def line(impact: Impact, subset: str, leakage: str, measure: str = "accuracy") -> Line:
    found = [
        one
        for one in impact.lines
        if (one.subset, one.leakage, one.measure) == (subset, leakage, measure)
    ]
    assert len(found) == 1
    return found[0]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
