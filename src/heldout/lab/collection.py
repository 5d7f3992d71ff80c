"""Collection: the distinct pictures of a benchmark or a corpus, each of them once.

A collection that holds a picture twice makes a right answer look wrong: the copy is retrieved, or
counted as a false alarm. So copies go first: equal pixels as a model sees them, and the pairs of
names somebody has found to be copies by registration or by eye.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from heldout.benchmark import Benchmark, canonical_metadata
from heldout.corpus import Corpus
from heldout.engine import usable_cores
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, is_blank, pixel_digest, to_rgb
from heldout.store import Dropped

STAGE = "lab"


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    image: ImageRef
    digest: str  # of its pixels as 8-bit RGB: grey stored as colour is the same picture
    cluster: str  # what it shares a patient or slide with; itself where nothing is known
    group: str = ""  # modality, organ …: what different pictures must agree in to be hard to tell
    searched_only: bool = False  # never queried with


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
        own = [index for index, item in enumerate(self.items) if not item.searched_only]
        if count is None or count >= len(own):
            return own
        order = np.random.default_rng([seed, 2]).permutation(len(own))
        return sorted(own[index] for index in order[:count].tolist())


def collect(
    source: Benchmark | Corpus,
    *,
    among: Iterable[Benchmark | Corpus] = (),
    group: str | None = None,
    copies: Iterable[tuple[str, str]] = (),
    limit: int | None = None,
) -> Collection:
    """Every distinct, readable picture of ``source`` that shows something, in its order.

    Those of ``among`` follow: they are searched, never queried with. ``group`` names a column of a
    benchmark (its modality, say). Of each pair in ``copies`` (names of pictures known to be the
    same) the later one is left out.
    """
    dropped: list[Dropped] = []
    listed = list(itertools.islice(_pictures(source, group, dropped), limit))
    own = len(listed)
    for other in among:
        listed += _pictures(other, group, dropped)
    if repeated := len(listed) - len({item.name for item in listed}):
        # Two pictures may share a name (a.jpg in two folders); evidence has to say which is meant.
        listed = [dataclasses.replace(item, name=item.image.source) for item in listed]
    known = _partners(copies, {item.name for item in listed}, bool(repeated))
    seen: dict[str, str] = {}
    items: list[Item] = []
    kept: set[str] = set()
    with ThreadPoolExecutor(usable_cores()) as pool:  # decoding releases the interpreter lock
        digests = pool.map(_digest, (item.image for item in listed))
        for index, (item, image_error) in enumerate(zip(listed, digests, strict=True)):
            name = item.name
            if isinstance(image_error, ImageError):
                dropped.append(Dropped(STAGE, name, image_error.reason, image_error.detail))
            elif image_error == "":
                dropped.append(Dropped(STAGE, name, "blank image", "nothing to recognise it by"))
            elif first := seen.get(image_error) or min(known.get(name, set()) & kept, default=""):
                dropped.append(Dropped(STAGE, name, "duplicate image", f"a copy of {first}"))
            else:
                seen[image_error] = name
                kept.add(name)
                items.append(
                    dataclasses.replace(
                        item,
                        digest=image_error,
                        cluster=item.cluster or image_error,
                        searched_only=index >= own,
                    )
                )
    return Collection(source.name, tuple(items), tuple(dropped))


def _pictures(
    source: Benchmark | Corpus, group: str | None, dropped: list[Dropped]
) -> Iterator[Item]:
    """Pictures whose digest is not known yet; the cluster is empty where nothing names one."""
    if isinstance(source, Benchmark):
        dropped += source.dropped
        first = {ref: example for example in reversed(source.examples) for ref in example.images}
        if group and not any(group in example.metadata for example in source.examples):
            known = sorted({key for example in source.examples for key in example.metadata})
            raise InputError(
                f"{source.name} has no column '{group}' to group pictures by; it has "
                f"{', '.join(known) or 'none'}"
            )
        for ref in source.images:
            example = first[ref]
            value = canonical_metadata(example.metadata).get(group, "") if group else ""
            yield Item(ref.name, ref, "", example.cluster or "", value)
        return
    for shard in source.shards():
        for item in source.read(shard):
            if isinstance(item, Dropped):
                dropped.append(item)
            elif item.image is not None:
                yield Item(item.id, item.image, "", "")


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
