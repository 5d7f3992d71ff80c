"""Collection: the distinct pictures of a benchmark or a corpus, each of them once.

A collection that holds a picture twice makes a right answer look wrong: the copy is retrieved, or
counted as a false alarm. So copies go first: equal pixels as a model sees them, and the pairs of
names somebody has found to be copies by registration or by eye.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, pixel_digest, to_rgb
from heldout.image.digest import is_blank
from heldout.store import Dropped

STAGE = "lab"


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    image: ImageRef
    digest: str  # of its pixels as 8-bit RGB: grey stored as colour is the same picture
    cluster: str  # what it shares a patient or slide with; itself where nothing is known


@dataclass(frozen=True)
class Collection:
    name: str
    items: tuple[Item, ...]
    dropped: tuple[Dropped, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def reserve(self, count: int, seed: int) -> tuple[Collection, tuple[Item, ...]]:
        """The collection without ``count`` of its pictures, and those.

        They fill the other panels of compound figures: were they still in the collection, finding
        them in a figure would be right and counted as wrong.
        """
        order = np.random.default_rng([seed, 1]).permutation(len(self.items))
        taken = set(order[:count].tolist())
        rest = tuple(item for index, item in enumerate(self.items) if index not in taken)
        return (
            Collection(self.name, rest, self.dropped),
            tuple(self.items[index] for index in sorted(taken)),
        )

    def sample(self, count: int | None, seed: int) -> list[int]:
        """Positions of ``count`` queries, all when there are no more than that."""
        if count is None or count >= len(self.items):
            return list(range(len(self.items)))
        order = np.random.default_rng([seed, 2]).permutation(len(self.items))
        return sorted(order[:count].tolist())


def collect(
    source: Benchmark | Corpus,
    *,
    copies: Iterable[tuple[str, str]] = (),
    limit: int | None = None,
) -> Collection:
    """Every distinct, readable picture of ``source`` that shows something, in its order.

    Of each pair in ``copies`` (names of pictures known to be the same) the later one is left out.
    """
    dropped: list[Dropped] = []
    listed = list(itertools.islice(_pictures(source, dropped), limit))
    if repeated := len(listed) - len({name for name, _, _ in listed}):
        # Two pictures may share a name (a.jpg in two folders); evidence has to say which is meant.
        listed = [(image.source, image, cluster) for _, image, cluster in listed]
    known = _partners(copies, {name for name, _, _ in listed}, bool(repeated))
    seen: dict[str, str] = {}
    items: list[Item] = []
    kept: set[str] = set()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # decoding releases the interpreter lock
        digests = pool.map(_digest, (image for _, image, _ in listed))
        for (name, image, cluster), found in zip(listed, digests, strict=True):
            if isinstance(found, ImageError):
                dropped.append(Dropped(STAGE, name, found.reason, found.detail))
            elif found == "":
                dropped.append(Dropped(STAGE, name, "blank image", "nothing to recognise it by"))
            elif first := seen.get(found) or min(known.get(name, set()) & kept, default=""):
                dropped.append(Dropped(STAGE, name, "duplicate image", f"a copy of {first}"))
            else:
                seen[found] = name
                kept.add(name)
                items.append(Item(name, image, found, cluster or found))
    return Collection(source.name, tuple(items), tuple(dropped))


def _pictures(
    source: Benchmark | Corpus, dropped: list[Dropped]
) -> Iterator[tuple[str, ImageRef, str | None]]:
    if isinstance(source, Benchmark):
        dropped += source.dropped
        clusters = {
            ref: example.cluster for example in reversed(source.examples) for ref in example.images
        }
        for ref in source.images:
            yield ref.name, ref, clusters[ref]
        return
    for shard in source.shards():
        for item in source.read(shard):
            if isinstance(item, Dropped):
                dropped.append(item)
            elif item.image is not None:
                yield item.id, item.image, None


def _partners(
    copies: Iterable[tuple[str, str]], names: set[str], by_source: bool
) -> dict[str, set[str]]:
    partners: dict[str, set[str]] = {}
    for one, other in copies:
        for name in (one, other):
            if name not in names:
                hint = " (names repeat here, so pictures go by their source)" if by_source else ""
                raise InputError(f"'{name}' is listed as a copy but no picture has that name{hint}")
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    return partners


def _digest(image: ImageRef) -> str | ImageError:
    """The digest, or an empty one for a picture that shows nothing."""
    try:
        shown = image.open()
    except ImageError as error:
        return error
    return "" if is_blank(shown) else pixel_digest(to_rgb(shown))
