"""Options in another order: rotations (CircularEval) and seeded shuffles in which the right one moves."""

from __future__ import annotations

import dataclasses
import hashlib
import re

import numpy as np

from heldout.benchmark.grading import letter
from heldout.model.asking.question import Question

# An option that speaks of its neighbours, or of their letters, means something else elsewhere.
BOUND = re.compile(
    r"\b(?:(?i:(?:all|none|neither|any|both|either|some) of (?:the )?(?:above|below|these|those|options))"
    r"|(?i:both|either|neither|all of|options?|choices?)\s+\(?[A-H]\)?\b(?=\s*(?:$|,|and|or|nor|&))"
    r"|\(?[A-H]\)? (?:and|or|&) \(?[A-H]\)?$)"
)


def rotated(question: Question, places: int) -> Question:
    """The option ``places`` further down stands first."""
    count = len(question.options)
    return reordered(
        question, f"rotation-{places}", tuple((n + places) % count for n in range(count))
    )


def shuffled(question: Question, number: int, seed: int) -> Question:
    """The ``number``-th shuffle of this item: drawn again until the right option has moved."""
    random = item_random(seed, f"shuffle-{number}", question.benchmark_id)
    gold = ord(question.gold) - ord("A")
    while True:
        order = tuple(int(place) for place in random.permutation(len(question.options)))
        if order.index(gold) != gold:
            return reordered(question, f"shuffle-{number}", order)


def reordered(question: Question, variant: str, order: tuple[int, ...]) -> Question:
    gold = ord(question.gold) - ord("A")
    return dataclasses.replace(
        question,
        variant=variant,
        options=tuple(question.options[place] for place in order),
        order=order,
        gold=letter(order.index(gold)),
    )


def bound(question: Question) -> str | None:
    """The first option that depends on where the others stand."""
    return next((option for option in question.options if BOUND.search(option.strip())), None)


def item_random(seed: int, *names: str) -> np.random.Generator:
    """Draws of one item that do not change with the other items of a run."""
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
