"""Ranks of the right candidate for every query, and what they measure: zero-shot classification, retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
TIE = 1e-6  # of a cosine; candidates this near count as equal, and a tie is lost
_CELLS = 1 << 24  # similarities held at a time


def best_ranks(
    queries: Floats, candidates: Floats, right: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Per query 1 + the wrong candidates that are at least as near as the best of its ``right`` ones.

    A similarity that is not a number never helps: of a right candidate the rank is behind all others.
    """
    zeros = np.zeros(len(queries), np.int64)
    size = max(1, _CELLS // max(1, len(candidates)))
    for start in range(0, len(queries), size):
        near = queries[start : start + size] @ candidates.T
        for row, similarities in enumerate(near):
            own = right[start + row]
            bound = similarities[own].max() - TIE
            if not np.isfinite(bound):
                zeros[start + row] = len(candidates) + 1
                continue
            near_ones = ~(similarities < bound)  # candidates that cannot be compared rank ahead
            zeros[start + row] = 1 + int(near_ones.sum()) - int(near_ones[own].sum())
    return zeros


def usable(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows point anywhere: all numbers finite, and not all of them zero."""
    array: NDArray[np.bool_] = np.isfinite(rows).all(axis=-1) & rows.any(axis=-1)
    return array


def alike(rows: Floats) -> int:
    """How many rows equal the one that more than half of them are; 0 where there is none.

    Where more than half are equal, that row is the median of every column.
    """
    middle = np.median(rows, axis=0) if len(rows) else np.zeros(0)
    length = float(np.linalg.norm(middle))
    if len(rows) < 2 or not length:
        return 0
    count = int((rows @ (middle / length).astype(np.float32) >= 1 - TIE).sum())
    return count if 2 * count > len(rows) else 0


def tied(rows: Floats) -> int:
    """How many rows have an equal among the others."""
    count, size = 0, max(1, _CELLS // max(1, len(rows)))
    for start in range(0, len(rows), size):
        near = rows[start : start + size] @ rows.T >= 1 - TIE
        count += int((near.sum(axis=1) > 1).sum())
    return count


def hits_at(ranks: NDArray[np.int64], cut: int) -> NDArray[np.float64]:
    return (ranks <= cut).astype(np.float64)


# Zero-shot classification: the class whose prompts are nearest to the picture.


CUTS = (1, 5)


def class_rows(prompt_rows: Floats, templates: int) -> Floats:
    """One unit row per class: the mean of its prompts, which stand together, made a unit again."""
    means = prompt_rows.reshape(-1, templates, prompt_rows.shape[1]).mean(axis=1)
    return _unit(means)


def averaged_rows(rows: Floats, labels: Sequence[str]) -> tuple[list[str], Floats]:
    """Classes in their order of appearance, with the mean of the rows that each has."""
    names = list(dict.fromkeys(labels))
    places = {name: place for place, name in enumerate(names)}
    sums = np.zeros((len(names), rows.shape[1]), np.float64)
    np.add.at(sums, [places[label] for label in labels], _unit(np.asarray(rows, np.float32)))
    return names, _unit(sums.astype(np.float32))


def zero_shot(pictures: Floats, classes: Floats, right: Sequence[int]) -> dict[str, list[float]]:
    """``top-1`` and ``top-5`` of every picture; top-5 only where there are more than five classes."""
    ranks = best_ranks(pictures, classes, [np.array([number], np.int64) for number in right])
    return {f"top-{cut}": hits_at(ranks, cut).tolist() for cut in CUTS if len(classes) > cut}


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit_rows: Floats = (rows / np.where(length > 0, length, 1)).astype(np.float32)
    return unit_rows


# Image–text retrieval both ways, in the collection of all captions or all pictures of the benchmark.
#
# A picture shown by several items is one candidate, and so is a sentence that several items share: another
# picture with the same caption counts as the right one.


RECALL_CUTS = (1, 5, 10)


@dataclass(frozen=True)
class Pairing:
    """Which captions belong to which pictures: indices of distinct captions by picture and of pictures by
    caption."""

    texts: list[str]
    captions_of: list[NDArray[np.int64]]  # per picture
    pictures_of: list[NDArray[np.int64]]  # per caption

    @classmethod
    def of(cls, shown: Sequence[int], captions: Sequence[Sequence[str]], pictures: int) -> Pairing:
        """``shown``: per item the place of its picture; ``captions``: per item its sentences."""
        places: dict[str, int] = {}
        by_picture: list[dict[int, None]] = [{} for _ in range(pictures)]
        by_caption: list[dict[int, None]] = []
        for picture, texts in zip(shown, captions, strict=True):
            for text in texts:
                place = places.setdefault(text, len(places))
                if place == len(by_caption):
                    by_caption.append({})
                by_picture[picture][place] = None
                by_caption[place][picture] = None
        return cls(
            list(places),
            [_places(record) for record in by_picture],
            [_places(record) for record in by_caption],
        )

    def image_to_text(self, pictures: Floats, texts: Floats) -> dict[str, dict[int, float]]:
        """Hits by picture, for those that have a caption."""
        asked = [place for place, own in enumerate(self.captions_of) if len(own)]
        ranks = best_ranks(pictures[asked], texts, [self.captions_of[place] for place in asked])
        return _hits(asked, ranks, len(texts))

    def text_to_image(self, pictures: Floats, texts: Floats) -> dict[str, dict[int, float]]:
        """Hits by distinct caption, among the pictures that have one."""
        shown = [place for place, own in enumerate(self.captions_of) if len(own)]
        moved = {place: new for new, place in enumerate(shown)}
        right = [
            np.array([moved[int(picture)] for picture in own], np.int64) for own in self.pictures_of
        ]
        return _hits(range(len(texts)), best_ranks(texts, pictures[shown], right), len(shown))


def _hits(
    asked: Sequence[int], ranks: NDArray[np.int64], candidates: int
) -> dict[str, dict[int, float]]:
    return {
        f"R@{cut}": dict(zip(asked, hits_at(ranks, cut).tolist(), strict=True))
        for cut in RECALL_CUTS
        if candidates > cut
    }


def _places(rows: dict[int, None]) -> NDArray[np.int64]:
    return np.fromiter(rows, np.int64, len(rows))
