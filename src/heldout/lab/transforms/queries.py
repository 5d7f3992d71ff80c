"""Queries: pictures of a collection under every transform, made once, encoded once."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.benchmark import Benchmark, canonical_metadata
from heldout.corpus import Corpus
from heldout.engine import progress, usable_cores
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, is_blank, pixel_digest, to_rgb
from heldout.lab.settings import Side
from heldout.lab.transforms.transform import TRANSFORMS, Transform
from heldout.store import Dropped

# Collection: the distinct pictures of a benchmark or a corpus, each of them once.
#
# A collection that holds a picture twice makes a right answer look wrong: the copy is retrieved, or
# counted as a false alarm. So copies go first: equal pixels as a model sees them, and the pairs of
# names that registration or people found to be copies.


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
    for first, other in copies:
        for name in (first, other):
            if name not in names:
                hint = " (names repeat here, so pictures go by their source)" if by_source else ""
                raise InputError(f"'{name}' is listed as a copy but no picture has that name{hint}")
        partners.setdefault(first, set()).add(other)
        partners.setdefault(other, set()).add(first)
    return partners


def _digest(image: ImageRef) -> str | ImageError:
    """The digest, or an empty one for a picture that shows nothing."""
    try:
        picture = image.open()
    except ImageError as error:
        return error
    return "" if is_blank(picture) else pixel_digest(to_rgb(picture))


Task = TypeVar("Task")
Made = TypeVar("Made")

_BATCH = 32

# Rows of a query's views, as overlap's encoders give them: a query is as similar as its most similar
# view, and to a picture of the corpus as to the most similar of its parts.
Views = Callable[[Image.Image], tuple[Sequence[str], NDArray[np.float32]]]
Parts = Callable[[Image.Image], list[Image.Image]]


class StudyEncoder(Protocol):
    """What the study needs of an encoder; ``identity`` includes its pre-processing."""

    @property
    def identity(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def encode(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """One unit row per picture."""
        ...


@runtime_checkable
class InTwoHalves(Protocol):
    """An encoder whose first half runs in threads, as those of ``overlap`` do."""

    def prepare(self, image: Image.Image) -> NDArray[np.float32]: ...

    def embed(self, batch: NDArray[np.float32]) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class TransformedQueries:
    """Rows of queries, and how similar each is to its copy; a transform that does not apply is not
    ``made``. Queries have a row for every transform, or one where the copies are transformed."""

    positions: list[int]  # of the queries in the collection
    rows: NDArray[np.float32]  # queries × transforms or 1 × views × dimension, on disk
    own: NDArray[np.float64]  # similarity to the copy, queries × transforms
    made: NDArray[np.bool_]  # queries × transforms
    area_kept: NDArray[np.float64]  # share of the picture's area, queries × transforms


@dataclass(frozen=True)
class QueryMaker:
    """Makes the transformed pictures of one query; picklable, the same in every process."""

    transforms: tuple[Transform, ...]
    strangers: tuple[Item, ...]
    seed: int

    def transformed(
        self, item: Item, original: Image.Image, transform: Transform
    ) -> Image.Image | None:
        if not transform.applies_to(original.size):
            return None
        others = self._others(item, transform.others)
        return transform(original, seed=self.seed, key=item.digest, others=others)

    def _others(self, item: Item, count: int) -> list[Image.Image]:
        if not count:
            return []
        rng = np.random.default_rng([self.seed, int(item.digest[:8], 16)])
        chosen = rng.permutation(len(self.strangers))[:count]
        return [self.strangers[index].image.open() for index in chosen]


def encode_queries(
    collection: Collection,
    positions: list[int],
    maker: QueryMaker,
    encoder: StudyEncoder,
    folder: Path,
    *,
    views: Views | None = None,
    parts: Parts | None = None,
    side: Side = "query",
    quiet: bool = False,
) -> TransformedQueries:
    """Encode queries and copies, one side under every transform; rows go into a file in ``folder``.

    Views are of the query, whichever side is transformed: in an audit the queries are few.
    """
    items = [collection.items[position] for position in positions]
    shape = (len(items), len(maker.transforms))
    applies, area, own = np.zeros(shape, np.bool_), np.full(shape, np.nan), np.zeros(shape)
    stored: NDArray[np.float32] | None = None
    columns = shape[1] if side == "query" else 1
    with progress("encoding queries", len(items), "pictures", disabled=quiet) as step:
        prepare = functools.partial(_prepared_query, maker, encoder, views, parts, side)
        for index, (shares, seen, copies) in enumerate(_ahead(prepare, items)):
            applies[index] = [share is not None for share in shares]
            area[index, applies[index]] = [share for share in shares if share is not None]
            rows = np.stack(seen) if views else _embedded(encoder, seen)[:, None]
            if stored is None:
                stored = np.lib.format.open_memmap(
                    folder / "rows.npy",
                    "w+",
                    np.float32,
                    (shape[0], columns, rows.shape[1], encoder.dimension),
                )
            if rows.shape[1] != stored.shape[2]:
                raise InputError("every query needs the same number of views, these differ")
            stored[index, applies[index] if side == "query" else 0] = (
                rows if side == "query" else rows[0]
            )
            own[index, applies[index]] = _most_similar(rows, _embedded_each(encoder, copies))
            step()
    assert stored is not None  # there is at least one query
    return TransformedQueries(positions, stored, own, applies, area)


def _most_similar(
    rows: NDArray[np.float32], copies: list[NDArray[np.float32]]
) -> NDArray[np.float64]:
    """The most similar view and part of each query and its copy; the shorter side is repeated."""
    count = max(len(rows), len(copies))
    floats = rows.astype(np.float64)  # float64 sums do not depend on how the work was blocked
    return np.array(
        [
            (floats[min(index, len(rows) - 1)] @ copies[min(index, len(copies) - 1)].T).max()
            for index in range(count)
        ]
    )


def encode_collection(
    collection: Collection,
    encoder: StudyEncoder,
    block: int,
    *,
    parts: Parts | None = None,
    quiet: bool = False,
) -> Iterator[RowBlock]:
    """The collection's pictures, ``block`` at a time, a row for each of their parts."""
    with progress("encoding collection", len(collection), "pictures", disabled=quiet) as step:
        prepare = functools.partial(_prepared_picture, encoder, parts)
        waiting: list[list[Any]] = []
        start = 0
        for index, pictures in enumerate(_ahead(prepare, collection.items)):
            waiting.append(pictures)
            step()
            if len(waiting) == block or index + 1 == len(collection):
                rows = _embedded(encoder, [part for each in waiting for part in each])
                firsts = np.cumsum([0, *(len(each) for each in waiting[:-1])])
                yield RowBlock(start, rows, firsts)
                start, waiting = index + 1, []


class RowBlock(NamedTuple):
    """Rows of consecutive pictures of a collection; a picture may have several."""

    start: int  # position of the first picture
    rows: NDArray[np.float32]
    firsts: NDArray[np.intp]  # per picture, its first row


def as_published(item: Item) -> Image.Image:
    """A picture of the collection, in the mode its queries start from."""
    return TRANSFORMS["original"](item.image.open())


def _prepared(encoder: StudyEncoder, image: Image.Image) -> Any:
    return encoder.prepare(image) if isinstance(encoder, InTwoHalves) else image


def _prepared_parts(encoder: StudyEncoder, parts: Parts | None, image: Image.Image) -> list[Any]:
    return [_prepared(encoder, part) for part in (parts(to_rgb(image)) if parts else [image])]


def _prepared_picture(encoder: StudyEncoder, parts: Parts | None, item: Item) -> list[Any]:
    return _prepared_parts(encoder, parts, as_published(item))


def _prepared_query(
    maker: QueryMaker,
    encoder: StudyEncoder,
    views: Views | None,
    parts: Parts | None,
    side: Side,
    item: Item,
) -> tuple[list[float | None], list[Any], list[list[Any]]]:
    """Per transform the share of the area it keeps, None where it is not made; then the rows of the
    query's views (without views: the query, prepared) and the prepared parts of copies, under every
    transform made or once."""

    def viewed(image: Image.Image) -> Any:
        return views(image)[1] if views else _prepared(encoder, image)

    original = as_published(item)
    shares: list[float | None] = []
    seen: list[Any] = []
    copies: list[list[Any]] = []
    for transform in maker.transforms:
        image = maker.transformed(item, original, transform)
        if image is None:
            shares.append(None)
            continue
        shares.append(image.width * image.height / (original.width * original.height))
        if side == "query":
            seen.append(viewed(image))
        else:
            copies.append(_prepared_parts(encoder, parts, image))
    if side == "query":
        return shares, seen, [_prepared_parts(encoder, parts, original)]
    return shares, [viewed(original)], copies


def _embedded_each(encoder: StudyEncoder, pictures: list[list[Any]]) -> list[NDArray[np.float32]]:
    rows = _embedded(encoder, [part for each in pictures for part in each])
    return np.split(rows, np.cumsum([len(each) for each in pictures])[:-1])


def _embedded(encoder: StudyEncoder, prepared: Sequence[Any]) -> NDArray[np.float32]:
    """Rows of prepared pictures, once they are what the protocol promises."""
    parts = []
    for start in range(0, len(prepared), _BATCH):
        batch = prepared[start : start + _BATCH]
        if isinstance(encoder, InTwoHalves):
            parts.append(encoder.embed(np.stack(batch)))
        else:
            parts.append(encoder.encode(batch))
    rows = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    if rows.shape != (len(prepared), encoder.dimension):
        raise InputError(
            f"{encoder.identity} encoded {len(prepared)} pictures as {rows.shape}; expected "
            f"{(len(prepared), encoder.dimension)}"
        )
    norms = np.linalg.norm(rows, axis=1)
    # A row of zeros is a picture without any features. The check fails for NaN, too.
    if not np.all((np.abs(norms - 1.0) < 1e-2) | (norms == 0.0)):
        raise InputError(
            f"{encoder.identity} gives rows of length {norms.min():.3g} to {norms.max():.3g}; "
            f"a cosine needs unit rows"
        )
    return rows


def _ahead(make: Callable[[Task], Made], tasks: Sequence[Task]) -> Iterator[Made]:
    """make(task) in order, a few tasks ahead in threads: never all pictures in memory at once."""
    workers = usable_cores()
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(make, task))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
