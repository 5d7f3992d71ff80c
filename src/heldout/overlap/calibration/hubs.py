"""Hubs: corpus items that are the nearest neighbour of several distinct benchmark images.

A copy is the neighbour of one picture. An item that attracts many is a typical view, not a leak, and
a flag that rests on hubs speaks of a shared kind of picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from heldout.errors import InputError


@dataclass(frozen=True, slots=True)
class Hub:
    corpus_id: str
    images: tuple[str, ...]  # the benchmark images it is nearest to, the closest first
    count: int
    expected: float  # under random assignment, per corpus item
    p: float  # for this item
    p_adjusted: float  # for the most attractive of all corpus items (union bound)
    similarity: float  # the mean over its images


class HubReport(NamedTuple):
    images: int
    corpus_items: int
    attracting: int  # distinct corpus items that are anybody's nearest
    attracting_expected: float
    hubs: tuple[Hub, ...]
    share: float  # of benchmark images whose nearest neighbour is a hub


def hub_report(
    images: Sequence[str],
    neighbours: Sequence[str],
    similarities: ArrayLike,
    *,
    corpus_items: int,
    least: int = 2,
) -> HubReport:
    """``images`` names distinct pictures (digests); a picture shown by many questions counts once.

    The reference is every image choosing among all ``corpus_items`` alike. Give the number of items
    of the benchmark's own kind where that is known: among radiographs and cats, a radiograph is
    never the neighbour of a cat, and the whole corpus would make p too small.
    """
    values = np.asarray(similarities, dtype=np.float64)
    if not len(images) == len(neighbours) == len(values):
        raise InputError(
            f"hubs need one neighbour and one similarity per image, got {len(images)} images, "
            f"{len(neighbours)} neighbours and {len(values)} similarities"
        )
    attracted: dict[str, dict[str, float]] = defaultdict(dict)
    for image, neighbour, value in zip(images, neighbours, values, strict=True):
        attracted[neighbour].setdefault(image, float(value))
    n = len(set(images))
    if sum(map(len, attracted.values())) != n:
        raise InputError("an image has two nearest neighbours: pass each distinct image once")
    if corpus_items < len(attracted):
        raise InputError(
            f"{len(attracted):,} corpus items are neighbours, yet corpus_items is {corpus_items:,}"
        )
    hubs = [
        _hub(name, near, n, corpus_items) for name, near in attracted.items() if len(near) >= least
    ]
    hubs.sort(key=lambda hub: (-hub.count, -hub.similarity, hub.corpus_id))
    # One item attracts everybody, and the logarithm of 0 says so only with a warning.
    missed = np.exp(n * np.log1p(-1.0 / corpus_items)) if corpus_items > 1 else 0.0
    expected = corpus_items * float(1.0 - missed) if n else 0.0
    share = sum(hub.count for hub in hubs) / n if n else 0.0
    return HubReport(n, corpus_items, len(attracted), expected, tuple(hubs), share)


def _hub(name: str, near: dict[str, float], n: int, corpus_items: int) -> Hub:
    count = len(near)
    # P(Binomial(n, 1 / items) ≥ count), by the beta function: stable where it is tiny.
    p = float(special.betainc(count, n - count + 1, 1.0 / corpus_items))
    closest = tuple(sorted(near, key=lambda image: (-near[image], image)))
    mean = float(np.mean(list(near.values())))
    return Hub(name, closest, count, n / corpus_items, p, min(1.0, corpus_items * p), mean)
