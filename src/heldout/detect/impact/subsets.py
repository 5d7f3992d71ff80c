"""The subsets a score is broken into: leaked or not, how, and with which label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.evidence import CLEAN, ItemLeaks, Rung

Mask = NDArray[np.bool_]
#: kinds of leakage from the gravest down; hard and soft are the encoder's published degrees
COPY, UNDECIDED, HARD, SOFT, TEXT = "copy", "undecided", "hard", "soft", "text"
LEAKAGES = (COPY, UNDECIDED, HARD, SOFT, TEXT)
#: what labels made elsewhere call leaked; a kind of it follows after a colon
LABELLED = "labelled"


class Subset(NamedTuple):
    name: str
    mask: Mask


class Block(NamedTuple):
    """One kind of leakage: what has it, what has neither it nor anything graver."""

    leakage: str  # one of LEAKAGES
    leaked: Mask
    clean: Mask
    labels: tuple[Subset, ...]  # the leaked ones by how their label relates to the leaked one

    @property
    def compared(self) -> Mask:
        """Both, without what leaked in a graver way: else its effect would be counted here too."""
        return self.leaked | self.clean


def blocks(ids: Sequence[str], leaks: Mapping[str, ItemLeaks]) -> list[Block]:
    """Copies always; the other kinds, each without the graver ones, where there are any."""
    kinds = np.array([leakage(leaks[text]) if text in leaks else "" for text in ids], dtype=object)
    labels = np.array([leaks[text].label if text in leaks else "" for text in ids], dtype=object)

    def by_label(mask: Mask) -> tuple[Subset, ...]:
        subsets = [
            Subset(f"{label} label", mask & (labels == label))
            for label in ("same", "different", "conflicting", "unknown")
        ]
        told = [subset for subset in subsets if subset.mask.any()]
        # "label unknown" for all of them is no finding.
        return tuple(told) if len(told) > 1 or (told and told[0].name != "unknown label") else ()

    made: list[Block] = []
    clean = np.ones(len(ids), dtype=bool)
    for kind in LEAKAGES:
        mask = kinds == kind
        clean = clean & ~mask
        if kind == COPY or mask.any():
            made.append(Block(kind, mask, clean, () if kind == TEXT else by_label(mask)))
    return made


def label_blocks(ids: Sequence[str], kinds: Mapping[str, str]) -> list[Block]:
    """All that is labelled as leaked, and each kind by itself, against what is labelled as clean.

    Kinds of other people have no order, so none is graver: other kinds are in neither side.
    """
    array = np.array([kinds.get(text, UNDECIDED) for text in ids], dtype=object)
    clean: Mask = array == CLEAN
    leaked: Mask = ~clean & (array != UNDECIDED)
    names = sorted(set(array[leaked]))
    made = [Block(LABELLED, leaked, clean, ())]
    if len(names) > 1:
        made += [Block(f"{LABELLED}: {name}", array == name, clean, ()) for name in names]
    return made


def leakage(item_leaks: ItemLeaks) -> str:
    """How an item leaked at worst; empty where only words that prove nothing are alike."""
    grade = item_leaks.grade
    if grade >= Rung.COPY:
        return COPY
    if grade is Rung.UNDECIDED:
        return UNDECIDED
    if grade is Rung.NEAR:
        near = [leak for leak in item_leaks.leaks if leak.grade is Rung.NEAR]
        return HARD if any(leak.row["degree"] == "hard" for leak in near) else SOFT
    return TEXT if grade is Rung.TEXT else ""


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
    masks = []
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
        masks.append(mask)
    return masks
