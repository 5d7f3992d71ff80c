"""The subsets a score is broken into: leaked or not, how, and with which label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.cure.leaks import Grade, ItemLeaks

Mask = NDArray[np.bool_]
_SOFT = (Grade.NEAR, Grade.UNDECIDED)


class Subset(NamedTuple):
    name: str
    mask: Mask


class Block(NamedTuple):
    """One kind of leakage: what has it, what has neither it nor anything graver."""

    leakage: str  # hard, soft, text
    leaked: Mask
    clean: Mask
    labels: tuple[Subset, ...]  # the leaked ones by how their label relates to the leaked one


def blocks(ids: Sequence[str], leaks: Mapping[str, ItemLeaks]) -> list[Block]:
    """Hard (a verified copy) always; soft (near-identical, undecided) and text where there are any."""
    grades = [leaks[one].grade if one in leaks else None for one in ids]
    hard = np.array([grade is not None and grade >= Grade.COPY for grade in grades], dtype=bool)
    soft = np.array([grade in _SOFT for grade in grades], dtype=bool)
    text = np.array([grade is Grade.TEXT for grade in grades], dtype=bool)
    labels = np.array([leaks[one].label if one in leaks else "" for one in ids], dtype=object)

    def by_label(mask: Mask) -> tuple[Subset, ...]:
        found = [
            Subset(f"{label} label", mask & (labels == label))
            for label in ("same", "different", "conflicting", "unknown")
        ]
        told = [subset for subset in found if subset.mask.any()]
        # "label unknown" for all of them is no finding.
        return tuple(told) if len(told) > 1 or (told and told[0].name != "unknown label") else ()

    made = [Block("hard", hard, ~hard, by_label(hard))]
    if soft.any():
        made.append(Block("soft", soft, ~(hard | soft), by_label(soft)))
    if text.any():
        made.append(Block("text", text, ~(hard | soft | text), ()))
    return made


def matched_draws(
    clusters: Sequence[str], size: int, draws: int, rng: np.random.Generator
) -> list[Mask]:
    """Random subsets of about ``size`` items: whole clusters in random order, as many as come closest.

    Single items would be a control with more independent images than the leaked set has.
    """
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(clusters))
    sizes = np.bincount(codes)
    found = []
    for _ in range(draws):
        order = rng.permutation(len(sizes))
        filled = np.cumsum(sizes[order])
        count = int(np.argmin(np.abs(filled - size))) + 1
        found.append(np.isin(codes, order[:count]))
    return found
