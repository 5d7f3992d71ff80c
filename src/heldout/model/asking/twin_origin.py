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
    told = [_provenance(example) for example in twins]
    unjudged = sum(
        one.get("filter") == UNFILTERED and _renderer(one) != EXACT for one in told if one
    )
    return {"items": len(told), "unjudged": unjudged}


def _provenance(example: Example) -> Mapping[str, Any]:
    found: Any = example.metadata.get("twin")
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    if isinstance(found, Mapping):
        return found
    beginning = "twin."
    return {
        key.removeprefix(beginning): value
        for key, value in example.metadata.items()
        if key.startswith(beginning)
    }


def _renderer(provenance: Mapping[str, Any]) -> str:
    found = provenance.get("renderer", provenance.get("renderer.name"))
    return str(found.get("name")) if isinstance(found, Mapping) else str(found)
