"""Rules that choose an option without image and model: what they get right, the wording gives away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heldout.synth.balance import numbers_of
from heldout.synth.draft import LETTERS
from heldout.synth.mechanical import content_words
from heldout.synth.rates import cluster_rate

CHANCE = 1 / len(LETTERS)


@dataclass(frozen=True)
class BlindItem:
    question: str
    options: tuple[str, ...]
    answer: str  # a letter
    cluster: str  # items of one article are not independent


@dataclass(frozen=True)
class BlindRule:
    """``items``: those on which the rule chooses at all; ``right``: the share that it gets right, where
    options that it cannot tell apart share an item."""

    rule: str
    items: int
    right: float
    interval: list[float] | None  # over articles; None where there is one alone


def blind_rules(items: Sequence[BlindItem]) -> list[dict[str, Any]]:
    """How often each rule is right; guessing is right in one of five. No rule names a letter: the most
    frequent one is known only to who has counted, and the letters were balanced on purpose."""
    rules: Mapping[str, Callable[[BlindItem], Iterable[int] | None]] = {
        "longest option": lambda item: _most([len(one) for one in item.options]),
        "shortest option": lambda item: _most([-len(one) for one in item.options]),
        "most words of the question": _shared_words,
        "smallest number": lambda item: _number(item, -1),
        "largest number": lambda item: _number(item, 1),
    }
    return [asdict(one) for name, rule in rules.items() if (one := _measured(name, rule, items))]


def _measured(
    name: str, rule: Callable[[BlindItem], Iterable[int] | None], items: Sequence[BlindItem]
) -> BlindRule | None:
    points: list[float] = []
    clusters: list[str] = []
    for item in items:
        chosen = rule(item)
        if chosen is not None:
            places = list(chosen)
            points.append((LETTERS.index(item.answer) in places) / len(places))
            clusters.append(item.cluster)
    if not points:
        return None
    found = cluster_rate(points, clusters)
    return BlindRule(name, len(points), sum(points) / len(points), found["interval"])


def _most(values: Sequence[float]) -> list[int]:
    return [place for place, value in enumerate(values) if value == max(values)]


def _shared_words(item: BlindItem) -> list[int] | None:
    asked = content_words(item.question)
    shared = [len(content_words(option) & asked) for option in item.options]
    return _most(shared) if any(shared) else None


def _number(item: BlindItem, sign: int) -> list[int] | None:
    values = numbers_of(item.options)
    return None if values is None else _most([sign * value for value in values])
