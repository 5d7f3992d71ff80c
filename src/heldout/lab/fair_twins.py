"""Twins that are as hard as their originals, so that a model that saw neither shows no drop.

Several things make a changed picture harder without any memory. The right option of the original is often
the only one that is to be seen in it, and stays in sight where the change brings another one in. A shape
that is there three times is guessed more easily than one that is there once. What is asked for and absent
has its shape and its colour in the original, and nothing of it once it is changed away. And some answers
are likelier than others: one object is commoner than two, so that guessing fails on what was changed. A
fair twin shows as many of the options as its original and its answer as often, could have been asked the
question, and where there are few answers each of them is as often the new one as the old one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from heldout.lab.worlds import World

_TRIES = 400
MANY = 6  # answers of one kind of question; of fewer, some are likelier than others


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
    for _ in range(_TRIES):
        twin = world.vary(thing, rng)
        answer = asked.probe.answer(twin)
        if answer is None or answer == asked.answer:
            continue
        if (not asked.options or answer in asked.options) and fair(world, thing, twin, asked):
            return twin, answer
    return None


def fair(world: World, thing: Any, twin: Any, asked: Any) -> bool:
    """Whether guessing from what is in sight helps on the twin as much as on the thing."""
    shown, still = (_shown(world, one, asked.options) for one in (thing, twin))
    return shown == still and world.as_guessable(asked.probe, thing, twin)


def balanced(twins: Sequence[Twin]) -> list[Twin]:
    """Without those whose change goes the way that too many others go, too."""
    kinds: dict[tuple[str, bool], list[Twin]] = defaultdict(list)
    for twin in twins:
        kinds[twin.asked.content_type, bool(twin.asked.options)].append(twin)
    kept: set[str] = set()
    for members in kinds.values():
        kept |= _even(members) if _few(members) else {twin.id for twin in members}
    return [twin for twin in twins if twin.id in kept]


def _few(twins: Sequence[Twin]) -> bool:
    """Among many answers none is much likelier than another: shapes, colours."""
    return len({answer for twin in twins for answer in (twin.asked.answer, twin.answer)}) <= MANY


def _even(twins: Sequence[Twin]) -> set[str]:
    """Ids of those that are left when each answer is as often old as new; the last ones go first."""
    left = list(twins)
    while True:
        surplus = Counter(twin.asked.answer for twin in left)
        surplus.subtract(twin.answer for twin in left)
        if not any(surplus.values()):
            return {twin.id for twin in left}
        # Whoever changes the commonest answer into the rarest one evens out most.
        left.remove(max(left, key=lambda t: (surplus[t.asked.answer] - surplus[t.answer], t.id)))


def _shown(world: World, thing: Any, options: Sequence[str]) -> int:
    """How many of the options are words about the picture; places and numbers are never in sight."""
    words = set(re.findall(r"[a-z]+", world.describe(thing).lower()))
    return sum(set(re.findall(r"[a-z]+", one.lower())) <= words for one in options if one.isalpha())
