"""``pixels``: a descriptor without weights, so that everything works offline.

A row is the picture's layout and its words side by side: what keeps the layout (noise, blur, a smaller
size) is found by the one, what keeps the pieces (a crop, a turn, a page around it) by the other.
"""

from __future__ import annotations

import importlib

import numpy as np
from PIL import Image

from heldout.errors import require
from heldout.image import to_rgb
from heldout.overlap.encoders import layout, words
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.overlap.encoders.views import HALF, MANY, View
from heldout.overlap.parts import trimmed

WORDS = 1.5  # weight of the words' similarity, the layout's is 1
_GREYS = layout.SIDE**2


class PixelsEncoder(Encoder):
    identity = (
        f"pixels-2 | squash {layout.SIDE} grey, {layout.FREQUENCIES}² frequencies, "
        f"{layout.GRID}²x{layout.DIRECTIONS} edges; {words.COUNT} SIFT at {words.SIDE} as words of "
        f"{words.BITS} bits x {words.TABLES} in {words.DIMENSION}, weight {WORDS}"
    )
    dimension = layout.DIMENSION + words.DIMENSION

    def __init__(self) -> None:
        require("cv2", "vision", "the encoder pixels")
        importlib.import_module("cv2")  # by one thread: while it loads, others find half of it

    def prepare(self, image: Image.Image) -> Floats:
        picture = to_rgb(image).convert("L")
        return _side_by_side(picture, words.row_of_words(words.find_pieces(picture)))

    def _forward(self, batch: Floats) -> Floats:
        greys = batch[:, :_GREYS].reshape(-1, layout.SIDE, layout.SIDE)
        weighted = np.float32(WORDS**0.5) * batch[:, _GREYS:]
        return np.concatenate([layout.layout(greys), weighted], axis=1)

    def encode_views(self, image: Image.Image) -> tuple[list[str], Floats]:
        """Many views, for pieces are looked for only twice: a view's words follow from them."""
        picture = to_rgb(image).convert("L")
        pieces = words.find_pieces(picture)
        closer = words.find_pieces(picture, closer=1 / HALF)
        names = [view.name for view in MANY]
        prepared = [_side_by_side(view.of(picture), _words(view, pieces, closer)) for view in MANY]
        names.append("large pieces alone")
        prepared.append(_side_by_side(picture, words.row_of_words(pieces.large())))
        inside = trimmed(picture)  # corpus pictures lose their frames, too
        names.append("trimmed")
        prepared.append(prepared[0] if inside is None else self.prepare(inside))
        return names, self.embed(np.stack(prepared))


def _side_by_side(picture: Image.Image, row: Floats) -> Floats:
    return np.concatenate([layout.small_greys(picture).ravel(), row])


def _words(view: View, pieces: words.Pieces, closer: words.Pieces) -> Floats:
    if view.share < 1:
        # A crop is shown larger in the corpus: its pieces are those of a closer look.
        near = closer if view.share < 0.8 else pieces
        pieces = near.inside(view.share, view.place)
    return words.row_of_words(pieces, mirrored=view.pose >= 4, inverted=view.inverted)
