"""Twins that are as hard as their originals, so that a model that saw neither shows no drop.

Two things make a changed picture harder without any memory. The right option of the original is often the
only one that is to be seen in it, and stays in sight where the change brings another one in. And some
answers are likelier than others: one object is commoner than two, so that guessing fails on what was
changed. A fair twin shows as many of the options as its original, and counts and yes or no change into
each other as often one way as the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from heldout.lab.worlds import World

_TRIES = 400
_UNEVEN = re.compile(r"\d+|yes|no")  # answers of which one is likelier than another


class Twin(NamedTuple):
    """``thing`` is the world's own; ``asked`` the original's question."""

    id: str
    thing: Any
    asked: Any
    answer: str


def draw_twin(
    world: World, thing: Any, asked: Any, rng: np.random.Generator
) -> tuple[Any, str] | None:
    """The thing with one attribute changed so that the answer is another one of those offered."""
    shown = _shown(world, thing, asked.options)
    for _ in range(_TRIES):
        twin = world.vary(thing, rng)
        answer = asked.probe.answer(twin)
        if answer is None or answer == asked.answer:
            continue
        offered = not asked.options or answer in asked.options
        if offered and _shown(world, twin, asked.options) == shown:
            return twin, answer
    return None


def balanced(twins: Sequence[Twin]) -> list[Twin]:
    """Without those whose change goes the way that too many others go, too."""
    ways: dict[tuple[str, bool], dict[tuple[str, str], list[str]]] = defaultdict(dict)
    for twin in twins:
        old, new = twin.asked.answer, twin.answer
        if _UNEVEN.fullmatch(old) and _UNEVEN.fullmatch(new):
            kind = ways[twin.asked.content_type, bool(twin.asked.options)]
            kind.setdefault((old, new), []).append(twin.id)
    surplus: set[str] = set()
    for kind in ways.values():
        for (old, new), ids in kind.items():
            surplus.update(ids[len(kind.get((new, old), ())) :])
    return [twin for twin in twins if twin.id not in surplus]


def _shown(world: World, thing: Any, options: Sequence[str]) -> int:
    """How many of the options are words about the picture; places and numbers are never in sight."""
    words = set(re.findall(r"[a-z]+", world.describe(thing).lower()))
    return sum(set(re.findall(r"[a-z]+", one.lower())) <= words for one in options if one.isalpha())
