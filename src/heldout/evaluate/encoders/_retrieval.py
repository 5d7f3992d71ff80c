"""Image–text retrieval both ways, in the collection of all captions or all pictures of the benchmark.

A picture shown by several items is one candidate, and so is a sentence that several items share: another
picture with the same caption counts as the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.evaluate.encoders._ranks import Floats, best_ranks, hits_at

CUTS = (1, 5, 10)


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
        for cut in CUTS
        if candidates > cut
    }


def _places(rows: dict[int, None]) -> NDArray[np.int64]:
    return np.fromiter(rows, np.int64, len(rows))
