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

    @property
    def compared(self) -> Mask:
        """Both, without what leaked in a graver way: else its effect would be counted here too."""
        return self.leaked | self.clean


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
    clusters: Sequence[str], leaked: Mask, draws: int, rng: np.random.Generator
) -> list[Mask]:
    """Random subsets of as many items from as many clusters as ``leaked`` has, cluster for cluster.

    Items drawn singly would come from more images than whole leaked clusters do, and whole clusters
    from fewer than leaks that took one item of each: either control would have another spread.
    """
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(clusters))
    sizes = np.bincount(codes, minlength=len(names))
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    counts = np.bincount(codes[leaked], minlength=len(names))
    largest = np.argsort(-sizes, kind="stable")
    # Largest first: a cluster that can give many items can give few, so no count is left without one,
    # and every assignment is equally likely.
    wanted = np.sort(counts[counts > 0])[::-1]
    found = []
    for _ in range(draws):
        mask = np.zeros(len(codes), dtype=bool)
        able: list[int] = []  # clusters not yet drawn that hold as many items as are wanted
        seen = 0
        for count in wanted:
            while seen < len(largest) and sizes[largest[seen]] >= count:
                able.append(int(largest[seen]))
                seen += 1
            chosen = able.pop(int(rng.integers(len(able))))
            mask[rng.choice(members[chosen], int(count), replace=False)] = True
        found.append(mask)
    return found
