"""Where twins come from, as far as they say: who drew them, and whether anybody looked at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from heldout.benchmark import Benchmark, Example

UNFILTERED = "unfiltered"
EXACT = "scene"  # redrawn from its description: right by construction


def twin_origin(twins: Benchmark) -> dict[str, Any]:
    """``unjudged``: how many of them nobody looked at; twins of other makers do not say."""
    records = [_provenance(example) for example in twins]
    unjudged = sum(
        record.get("filter") == UNFILTERED and _renderer(record) != EXACT
        for record in records
        if record
    )
    return {"items": len(records), "unjudged": unjudged}


def _provenance(example: Example) -> Mapping[str, Any]:
    record: Any = example.metadata.get("twin")
    if isinstance(record, str):
        try:
            record = json.loads(record)
        except ValueError:
            return {}
    if isinstance(record, Mapping):
        return record
    beginning = "twin."
    return {
        key.removeprefix(beginning): value
        for key, value in example.metadata.items()
        if key.startswith(beginning)
    }


def _renderer(provenance: Mapping[str, Any]) -> str:
    renderer = provenance.get("renderer", provenance.get("renderer.name"))
    return str(renderer.get("name")) if isinstance(renderer, Mapping) else str(renderer)
