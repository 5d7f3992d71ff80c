"""Which similarities are hard and soft for one encoder, from light copies, near pictures and different
pictures.

*Soft* begins above every pair of different pictures, *hard* above (nearly) every picture that is near
another of its own collection: slices of one study, frames of one film. What light copies reach is measured
beside both: a bound that few of them reach finds little. Nothing carries over to another encoder or
another kind of picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import open_corpus
from heldout.engine import progress
from heldout.errors import InputError
from heldout.lab.settings import DegreeSettings
from heldout.lab.transforms.queries import Collection, collect
from heldout.lab.transforms.result import StudyRecord
from heldout.lab.transforms.transform import TRANSFORMS
from heldout.overlap import Encoder, open_encoder
from heldout.stats import binomial_interval

LIGHT = ("jpeg-75", "jpeg-30", "rs-256", "rs-128", "gray", "gauss")
NEAR = 0.99  # of near pictures lie below the hard bound
_STEP = 1000  # bounds are thousandths
_BATCH = 32
Floats = NDArray[np.float32]


class Spread(StudyRecord):
    """Similarities of one kind of pair."""

    name: str
    n: int
    least: float
    low: float  # 1 %
    median: float
    high: float  # 99 %
    most: float


class SimilarityShare(StudyRecord):
    hits: int
    n: int
    low: float
    high: float


class DegreeRow(StudyRecord):
    """One bound, and which share of each kind of pair reaches it."""

    degree: str
    bound: float
    light_copies: SimilarityShare
    near: SimilarityShare
    different: SimilarityShare


class MeasuredDegrees(StudyRecord):
    """Degrees of one encoder on one kind of picture."""

    schema_version: int = 1
    encoder: str
    collections: list[str]
    hard: float
    soft: float
    copies: list[Spread]
    others: list[Spread]
    degrees: list[DegreeRow]
    published: list[DegreeRow]  # at .98 and .95, as published for CLIP ViT-B/32
    seed: int

    @property
    def separates(self) -> bool:
        """Whether nine of ten light copies lie above the pictures that are only near."""
        hard = self.degrees[0].light_copies
        return hard.hits >= 0.9 * hard.n


def measure_degrees(
    encoder: str,
    sources: Sequence[str],
    settings: DegreeSettings | None = None,
    *,
    quiet: bool = False,
    **values: Any,
) -> MeasuredDegrees:
    """Degrees of ``encoder`` by two collections or more; the first shares no source with the others.

    Args:
        encoder: As ``heldout overlap`` takes it.
        sources: Folders or benchmark files. A pair of a picture of the first and one of another is a pair
            of different pictures; the nearest two of one collection are near.
        settings: How many images are drawn, and how.
        quiet: Show no progress.
        **values: Single settings by name, instead of ``settings``.
    """
    chosen = DegreeSettings.choose(settings, values)
    if len(sources) < 2:
        raise InputError("degrees need two collections that share no source: give a second one")
    opened = open_encoder(encoder)
    names = _names(sources)
    collections = [
        _sampled(collect(open_corpus(source)), name, chosen.pictures, chosen.seed)
        for source, name in zip(sources, names, strict=True)
    ]
    for collection in collections:
        if len(collection) < 2:
            raise InputError(
                f"{collection.name} has {len(collection)} usable pictures; degrees need two or more"
            )
    total = sum(map(len, collections)) + chosen.queries * len(LIGHT)
    with progress("measuring degrees", total, "pictures", disabled=quiet) as step:
        rows = [_rows(collection, opened, step) for collection in collections]
        copies = {
            name: _copies(name, collections, rows, opened, chosen.queries, chosen.seed, step)
            for name in LIGHT
        }
    different = {
        f"{collections[0].name} and {other.name}": rows[0] @ own.T
        for other, own in zip(collections[1:], rows[1:], strict=True)
    }
    near = {
        collection.name: _nearest(own) for collection, own in zip(collections, rows, strict=True)
    }
    every = np.concatenate([array.ravel() for array in different.values()])
    close = np.concatenate(list(near.values()))
    light = np.concatenate(list(copies.values()))
    soft = _above(float(every.max()))
    hard = min(1.0, max(_above(float(np.quantile(close, NEAR))), soft + 1 / _STEP))
    # If even different pictures reach 1, no bound separates anything, and the table shows it.
    soft = min(soft, round(hard - 1 / _STEP, 3))

    def row(degree: str, bound: float) -> DegreeRow:
        shares = (_share(array >= bound) for array in (light, close, every))
        return DegreeRow(degree=degree, bound=bound, **dict(zip(_KINDS, shares, strict=True)))

    return MeasuredDegrees(
        encoder=opened.identity,
        collections=list(sources),
        hard=hard,
        soft=soft,
        seed=chosen.seed,
        copies=[_spread(name, array) for name, array in copies.items() if len(array)],
        others=[
            *(_spread(f"{name}, nearest in itself", array) for name, array in near.items()),
            *(_spread(f"{name}, nearest", array.max(axis=1)) for name, array in different.items()),
        ],
        degrees=[row("hard", hard), row("soft", soft)],
        published=[row("hard", 0.98), row("soft", 0.95)],
    )


_KINDS = ("light_copies", "near", "different")


def degrees_page(measured: Sequence[MeasuredDegrees]) -> str:
    """A table per encoder, in Markdown."""
    lines = [
        "| encoder | degree | similarity ≥ | light copies | near pictures | different pairs |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for measured_degrees in measured:
        name = measured_degrees.encoder.partition(" |")[0]
        for row in (*measured_degrees.degrees, *measured_degrees.published):
            what = row.degree if row in measured_degrees.degrees else f"{row.degree}, published"
            cells = (_share_cell(share) for share in (row.light_copies, row.near, row.different))
            lines.append(f"| {name} | {what} | {row.bound:.3f} | {' | '.join(cells)} |")
    for measured_degrees in measured:
        lines += [
            "",
            f"{measured_degrees.encoder}",
            "",
            "| similarity of | n | least | 1 % | median | 99 % | most |",
        ]
        lines.append("|---|--:|--:|--:|--:|--:|--:|")
        for spread in (*measured_degrees.copies, *measured_degrees.others):
            values = (spread.least, spread.low, spread.median, spread.high, spread.most)
            message = " | ".join(f"{value:.4f}" for value in values)
            lines.append(f"| {spread.name} | {spread.n:,} | {message} |")
        if not measured_degrees.separates:
            lines += [
                "",
                "Fewer than nine in ten light copies reach the hard bound: this encoder does not "
                "tell a copy from a near picture here. Let registration decide.",
            ]
    return "\n".join(lines) + "\n"


def _names(sources: Sequence[str]) -> list[str]:
    """The end of each path; with the folder above it where two end alike, else the whole."""
    for parts in (1, 2):
        names = ["/".join(Path(source).parts[-parts:]) for source in sources]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {source}" for number, source in enumerate(sources, 1)]


def _sampled(collection: Collection, name: str, pictures: int | None, seed: int) -> Collection:
    places = collection.sample(pictures, seed)
    return Collection(name, tuple(collection.items[place] for place in places))


def _rows(collection: Collection, encoder: Encoder, step: Callable[..., None]) -> Floats:
    rows = []
    for start in range(0, len(collection), _BATCH):
        some = collection.items[start : start + _BATCH]
        rows.append(encoder.encode([item.image.open() for item in some]))
        step(len(some))
    return np.concatenate(rows)


def _copies(
    name: str,
    collections: Sequence[Collection],
    rows: Sequence[Floats],
    encoder: Encoder,
    queries: int,
    seed: int,
    step: Callable[..., None],
) -> NDArray[np.float64]:
    """Similarities of pictures to their own copies, as many from every collection."""
    transform, values = TRANSFORMS[name], []
    for collection, own in zip(collections, rows, strict=True):
        for position in collection.sample(max(1, queries // len(collections)), seed):
            item = collection.items[position]
            picture = item.image.open()
            if transform.applies_to(picture.size):
                copy = encoder.encode([transform(picture, key=item.digest)])[0]
                values.append(float(copy @ own[position]))
            step()
    return np.array(values)


def _nearest(rows: Floats) -> Floats:
    near = rows @ rows.T
    np.fill_diagonal(near, -1.0)
    nearest: Floats = near.max(axis=1)
    return nearest


def _above(value: float) -> float:
    """The next thousandth above ``value``, at most 1."""
    return min(1.0, (math.floor(value * _STEP + 1e-6) + 1) / _STEP)


def _spread(name: str, values: NDArray[np.floating]) -> Spread:
    least, low, median, high, most = np.quantile(values, (0, 0.01, 0.5, 0.99, 1)).tolist()
    return Spread(
        name=name, n=len(values), least=least, low=low, median=median, high=high, most=most
    )


def _share(hits: NDArray[np.bool_]) -> SimilarityShare:
    interval = binomial_interval(int(hits.sum()), len(hits))
    return SimilarityShare(hits=int(hits.sum()), n=len(hits), low=interval.low, high=interval.high)


def _share_cell(share: SimilarityShare) -> str:
    return f"{share.hits:,} of {share.n:,} [{share.low:.2g}, {share.high:.2g}]"
