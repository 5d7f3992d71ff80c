"""A contamination plan made into rows of tokens: every exposure of every leaked item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heldout.lab.contamination import Contamination
from heldout.lab.forms import Asked, Piece, Rows, document, instructed, plain

Ids = NDArray[np.int16]
Weights = NDArray[np.uint8]


@dataclass(frozen=True)
class Released:
    """One picture of a benchmark with its items in released order; ``other`` words say other things
    about the same picture."""

    picture: int
    items: tuple[Asked, ...]
    paraphrases: tuple[str, ...]
    other: tuple[Asked, ...] = ()


@dataclass
class Planted:
    """Rows under pictures, and text rows; ``leaked`` are places of released pictures."""

    ids: list[Ids] = field(default_factory=list)
    learnt: list[Weights] = field(default_factory=list)
    picture: list[int] = field(default_factory=list)
    text: list[tuple[Ids, Weights]] = field(default_factory=list)
    leaked: tuple[int, ...] = ()


def leaked_places(count: int, share: float, seed: int) -> tuple[int, ...]:
    """Which pictures leak: drawn, then in released order."""
    rng = np.random.default_rng((seed, 21))
    return tuple(sorted(rng.permutation(count)[: max(1, round(share * count))].tolist()))


def plant(
    released: Sequence[Released], plan: Contamination, pictured: Rows, text: Rows, seed: int
) -> Planted:
    """Every exposure shows an item twice under its picture, plain and instructed, and once in a running
    text of the whole leak, as a scraped file would. Words without the picture go into texts alone."""
    leaked = leaked_places(len(released), plan.share, seed)
    made = Planted(leaked=leaked)
    for exposure in range(plan.dose):
        rng = np.random.default_rng((seed, 22, exposure))
        shown = [_worded(released[place], plan) for place in leaked]
        if plan.order == "shuffled":
            shown = [shown[place] for place in rng.permutation(len(shown))]
            shown = [_shuffled(one, rng) for one in shown]
        if plan.part == "image":
            for one in shown:
                _under(made, one.picture, [_either(item, rng) for item in one.other], pictured)
            continue
        # The file is read from another place every time, so that windows do not always break alike.
        start = int(rng.integers(len(shown)))
        turned = [*shown[start:], *shown[:start]]
        made.text += text.rows([document(item) for one in turned for item in one.items])
        for one in shown:
            for form in (plain, instructed):
                pieces = [form(item) for item in one.items]
                if plan.part == "text":
                    made.text += text.rows(pieces)
                else:
                    _under(made, one.picture, pieces, pictured)
    return made


def _under(made: Planted, picture: int, pieces: Sequence[Piece], rows: Rows) -> None:
    for ids, learnt in rows.rows(pieces):
        made.ids.append(ids)
        made.learnt.append(learnt)
        made.picture.append(picture)


def _either(item: Asked, rng: np.random.Generator) -> Piece:
    return plain(item) if rng.random() < 0.5 else instructed(item)


def _worded(one: Released, plan: Contamination) -> Released:
    if not plan.paraphrased:
        return one
    pairs = zip(one.items, one.paraphrases, strict=True)
    return replace(one, items=tuple(replace(item, question=words) for item, words in pairs))


def _shuffled(one: Released, rng: np.random.Generator) -> Released:
    return replace(one, items=tuple(one.items[n] for n in rng.permutation(len(one.items))))
