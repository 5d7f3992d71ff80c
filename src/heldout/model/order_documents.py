"""Items as one running text, the way a scraped release reads: what the order tests score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.benchmark.example import Example
from heldout.image import ImageRef
from heldout.model.request import Request, Text

# Part of the order scores' identity. Raise it with any change of what a model reads.
DOCUMENT = "heldout-document/1"
BLOCK = 8  # clusters from which an alternative predecessor is drawn: near, so that topics are alike
ALTERNATIVES = 2


def item_text(example: Example) -> str:
    """Every item ends alike, so that each order of the same items is the same text, rearranged."""
    question = " ".join((example.question or "").split())
    answer = " ".join((example.answer or "").split())
    return f"Question: {question}\nAnswer: {answer}\n\n" if question else f"{answer}\n\n"


def joint_request(name: str, items: Sequence[Example], *, interleaved: bool = False) -> Request:
    """Every item scored given those before it."""
    return Request(name, _parts(items, 0, interleaved), turn=False)


def neighbour_request(
    name: str, before: Example, item: Example, *, interleaved: bool = False
) -> Request:
    """One item scored given the one before it."""
    return Request(name, _parts([before, item], 1, interleaved), turn=False)


def shows_again(item: Example, before: Example | None) -> bool:
    """Questions on one picture stand under it: a release does not print it again for each."""
    return before is not None and item.images == before.images


def alternatives(clusters: Sequence[str], *, seed: int = 0) -> dict[int, tuple[int, ...]]:
    """Per item with a predecessor the places of others that might have come before it.

    Where the predecessor is of the item's own cluster, so are they; elsewhere they are of other clusters
    nearby. Items without any are not in the answer.
    """
    order = list(dict.fromkeys(clusters))
    rank = {cluster: place for place, cluster in enumerate(order)}
    members: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    found: dict[int, tuple[int, ...]] = {}
    for place in range(1, len(clusters)):
        own, before = clusters[place], clusters[place - 1]
        if own == before:
            pool = [other for other in members[own] if other not in (place, place - 1)]
        else:
            first = rank[own] // BLOCK * BLOCK
            near = order[max(0, min(first, len(order) - BLOCK)) : first + BLOCK]
            pool = [
                other
                for cluster in near
                if cluster != own
                for other in members[cluster]
                if other != place - 1
            ]
        if pool:
            rng = np.random.default_rng([seed, place])
            drawn = rng.choice(len(pool), min(ALTERNATIVES, len(pool)), replace=False)
            found[place] = tuple(pool[int(one)] for one in sorted(drawn))
    return found


def _parts(
    items: Sequence[Example], first_scored: int, interleaved: bool
) -> tuple[ImageRef | Text, ...]:
    parts: list[ImageRef | Text] = []
    before: Example | None = None
    for place, item in enumerate(items):
        if interleaved and not shows_again(item, before):
            parts += item.images
        parts.append(Text(item_text(item), scored=place >= first_scored))
        before = item
    return tuple(parts)
