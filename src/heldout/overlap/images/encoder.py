"""Encoder: the one small interface between pictures and vectors.

It has two halves so that one can hide behind the other: ``prepare`` is what the processor's cores do
to one picture (any number of threads at once), ``embed`` is what the model does to a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from heldout.errors import InputError
from heldout.image import to_rgb
from heldout.overlap.images._panels import Box, count_along, outside, panel_boxes

# Views of one query picture: what a copy of it may look like after a flip, a turn, a crop, inversion.
#
# Queries are few and corpora are huge, so robustness is bought here, on the query's side.


_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
# Pose k is the picture, mirrored left to right from 4 on, then turned k % 4 quarters to the left.
POSES = (
    "as is",
    "rotated 90°",
    "rotated 180°",
    "rotated 270°",
    "flipped horizontally",
    "flipped horizontally, rotated 90°",
    "flipped vertically",
    "flipped horizontally, rotated 270°",
)
HALF = 0.7071  # of each side: half of the area
CORNERS = {
    "centre": (0.5, 0.5),
    "top left": (0.0, 0.0),
    "top right": (1.0, 0.0),
    "bottom left": (0.0, 1.0),
    "bottom right": (1.0, 1.0),
}
# (share of each side, places along it): a crop anywhere is at most a twentieth of a side from one.
GRIDS = ((HALF, 5), (0.85, 3))
MARGINS = (0.95, 0.9, 0.85, 0.78, 0.62)  # of each side, around the middle
DIAGONALS = (45, 135, 225, 315)


@dataclass(frozen=True)
class View:
    """One way to look at a picture: a crop of it, turned, in the negative."""

    name: str
    pose: int = 0
    share: float = 1.0  # of each side
    place: tuple[float, float] = (0.5, 0.5)  # where the rest falls: (0, 0) keeps the top left
    degrees: int = 0
    inverted: bool = False

    def of(self, picture: Image.Image) -> Image.Image:
        seen = picture if self.share == 1 else picture.crop(self.box(picture.size))
        if self.inverted:
            seen = ImageOps.invert(seen)
        if self.degrees:
            seen = seen.rotate(self.degrees, Image.Resampling.BILINEAR)
        return in_pose(seen, self.pose)

    def box(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        width, height = (max(1, round(side * self.share)) for side in size)
        left = round((size[0] - width) * self.place[0])
        top = round((size[1] - height) * self.place[1])
        return left, top, left + width, top + height


def _more() -> Iterator[View]:
    taken = set(CORNERS.values())
    for share, count in GRIDS:
        steps = [step / (count - 1) for step in range(count)]
        for place in ((across, down) for down in steps for across in steps):
            if share == HALF and place in taken:
                continue
            if share == HALF or place != CORNERS["centre"]:
                name = f"crop {share:.0%} at {place[0]:.2f},{place[1]:.2f}"
                yield View(name, share=share, place=place)
    for margin in MARGINS:
        yield View(f"trimmed to {margin:.0%}", share=margin)
    for degrees in DIAGONALS:
        yield View(f"rotated {degrees}°", degrees=degrees)


FEW = (
    *(View(name, pose=pose) for pose, name in enumerate(POSES)),
    *(View(f"{name} crop", share=HALF, place=place) for name, place in CORNERS.items()),
    View("inverted", inverted=True),
)
MANY = (*FEW, *_more())


def in_pose(image: Image.Image, pose: int) -> Image.Image:
    turned = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if pose >= 4 else image
    turn = _TURNS[pose % 4]
    return turned if turn is None else turned.transpose(turn)


def views(image: Image.Image, *, thorough: bool = False) -> list[tuple[str, Image.Image]]:
    """(name, picture): eight poses, the middle and the four corners, the negative.

    ``thorough`` adds grids of crops, trims and diagonal turns: 51 in all, for encoders as cheap as
    ``pixels``.
    """
    picture = to_rgb(image)
    return [(view.name, view.of(picture)) for view in (MANY if thorough else FEW)]


# Parts of a corpus picture that may be somebody's picture: panels of a page, what a frame holds.
#
# A copy inside a compound figure, or with a border around it, looks nothing like its original as a
# whole. Cutting along gutters and frames is cheap next to encoding, and most pictures have neither.


_SIDE = 768  # pixels gutters and margins are looked for in
_LEVELS = 14  # grey levels within which a margin is one colour: JPEG makes noise of a flat border
_WORTH = 0.9  # of the area; a frame that takes less hides nothing
_SMALLEST = 48  # pixels a side


def parts(image: Image.Image) -> list[Image.Image]:
    """The picture itself first, then its panels, then what is inside its frame."""
    grey = _small(image)
    boxes = panel_boxes(grey)
    inside = _inside(grey)
    if inside is not None:
        boxes = [*boxes, inside]
    return [image, *(image.crop(_native(box, image, grey)) for box in boxes)]


def trimmed(image: Image.Image) -> Image.Image | None:
    """The picture without margins of one colour, or None if it has none worth cutting."""
    grey = _small(image)
    inside = _inside(grey)
    return None if inside is None else image.crop(_native(inside, image, grey))


def _small(image: Image.Image) -> NDArray[np.uint8]:
    step = max(image.size) // _SIDE
    return np.asarray(image.convert("L") if step < 2 else image.convert("L").reduce(step))


def _native(box: Box, image: Image.Image, grey: NDArray[np.uint8]) -> Box:
    across, down = image.width / grey.shape[1], image.height / grey.shape[0]
    left, top, right, bottom = box
    return (round(left * across), round(top * down), round(right * across), round(bottom * down))


def _inside(grey: NDArray[np.uint8]) -> Box | None:
    corners = np.array([grey[0, 0], grey[0, -1], grey[-1, 0], grey[-1, -1]])
    margin = int(np.median(corners))
    shown = outside(grey, margin - _LEVELS, margin + _LEVELS)
    # A line belongs to the margin unless something shows in a noticeable part of it.
    rows = np.flatnonzero(count_along(shown, 1) > 0.02 * shown.shape[1])
    columns = np.flatnonzero(count_along(shown, 0) > 0.02 * shown.shape[0])
    if not len(rows) or not len(columns):
        return None
    box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    width, height = box[2] - box[0], box[3] - box[1]
    if width * height > _WORTH * grey.size or min(width, height) < _SMALLEST:
        return None
    return box


Floats = NDArray[np.float32]
TEXTS = 256  # texts of one forward


@dataclass(frozen=True)
class Aspect:
    """Columns of a row that propose neighbours by themselves, and how similar they have to be."""

    name: str
    columns: slice
    least: float = -1.0  # similarity below which no pair is worth verifying
    least_small: float = -1.0  # the same of pictures of fewer than SMALL_SIDE pixels a side
    sure: float | None = None  # from which on every pair is, however many there are
    # Only the nearest is verified, and what is so many times as similar as the last, a stranger.
    outstanding: float | None = None
    worth: float = 2.0  # … or is so similar that it may be a copy among strangers
    views: frozenset[str] | None = None  # of a query that it compares; None for all

    @property
    def is_whole(self) -> bool:
        return self.columns == slice(None)

    def of(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The aspect of ``rows``, as unit rows again."""
        if self.is_whole:
            return rows
        return unit(np.asarray(rows[:, self.columns], dtype=np.float32))

    def looks_at(self, view: str) -> bool:
        return self.views is None or view in self.views


WHOLE = Aspect("whole", slice(None))


class Encoder(ABC):
    """``identity`` names weights and pre-processing: vectors are comparable only if it is equal."""

    identity: str
    dimension: int
    aspects: tuple[Aspect, ...] = (WHOLE,)

    @abstractmethod
    def prepare(self, image: Image.Image) -> Floats:
        """One decoded picture as the model wants it. Called from several threads."""

    def prepare_parts(self, images: Sequence[Image.Image]) -> list[Floats]:
        """The same for a picture and its parts; an encoder that can share work among them does."""
        return [self.prepare(image) for image in images]

    @abstractmethod
    def _forward(self, batch: Floats) -> Floats:
        """(n, …) prepared pictures to (n, dimension) vectors of any length."""

    def embed(self, batch: Floats) -> Floats:
        """Unit rows for a batch of prepared pictures."""
        if not len(batch):
            return np.zeros((0, self.dimension), np.float32)
        rows = np.asarray(self._forward(batch), dtype=np.float32)
        if rows.shape != (len(batch), self.dimension):
            raise InputError(
                f"{self.identity} gave an array of shape {rows.shape} for {len(batch)} pictures; "
                f"expected ({len(batch)}, {self.dimension}), one vector each"
            )
        if not np.isfinite(rows).all():
            raise InputError(f"{self.identity} gave a vector that is not a number")
        return unit(rows)

    def encode(self, images: Sequence[Image.Image]) -> Floats:
        """(n, dimension) unit rows, one per picture."""
        prepared = [self.prepare(image) for image in images]
        return self.embed(np.stack(prepared) if prepared else np.zeros((0, 1), np.float32))

    @property
    def text_identity(self) -> str:
        """What texts are read with: the encoder and its tokenizer. InputError without a text tower."""
        raise InputError(
            f"{self.identity} reads no texts: zero-shot classification and retrieval need a dual "
            f"encoder with a text tower (CLIP, SigLIP: transformers:NAME, open_clip:MODEL/TAG)"
        )

    def _forward_texts(self, texts: Sequence[str]) -> Floats:
        """Texts to (n, dimension) vectors of any length; dual encoders override it."""
        raise NotImplementedError

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """(n, dimension) unit rows in the space of the pictures. InputError without a text tower."""
        whose = self.text_identity
        rows = [np.zeros((0, self.dimension), np.float32)]
        for start in range(0, len(texts), TEXTS):
            some = list(texts[start : start + TEXTS])
            vectors = np.asarray(self._forward_texts(some), dtype=np.float32)
            if vectors.shape != (len(some), self.dimension):
                raise InputError(
                    f"{whose} gave an array of shape {vectors.shape} for {len(some)} texts; expected "
                    f"({len(some)}, {self.dimension}), vectors as long as those of pictures"
                )
            if not np.isfinite(vectors).all():
                raise InputError(f"{whose} gave a vector of a text that is not a number")
            rows.append(unit(vectors))
        return np.concatenate(rows)

    def encode_views(self, image: Image.Image) -> tuple[list[str], Floats]:
        """Names and unit rows of a query picture as its copies may look, as many for every picture.

        An encoder as cheap as ``pixels`` overrides it with more of them.
        """
        picture = to_rgb(image)
        seen = views(picture)
        seen.append(("trimmed", trimmed(picture) or picture))  # corpus pictures lose frames, too
        return [name for name, _ in seen], self.encode([view for _, view in seen])


def unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays, and is similar to nothing."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    result: Floats = (rows / np.where(length > 0, length, 1)).astype(np.float32)
    return result


def require_same(left: str, right: str) -> None:
    """Raise InputError unless two embeddings come from one encoder, pre-processing included."""
    if left != right:
        raise InputError(
            f"embeddings of different encoders cannot be compared: one side is '{left}', the other "
            f"'{right}'. Embed both sides with the same encoder"
        )


# From any decoded picture to the array a vision model reads; Pillow and NumPy only.


STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
RESIZING = ("squash", "crop")  # both sides to size; or the shorter one, then the middle square
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    size: int = 224
    resize: str = "squash"
    filter: str = "bilinear"
    statistics: str = "imagenet"

    def __str__(self) -> str:
        return f"{self.resize} {self.size} {self.filter} {self.statistics}"

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """(3, size, size), normalised."""
        picture = to_rgb(image)
        target = (self.size, self.size)
        box = None
        if self.resize == "crop":
            side = min(picture.size)
            left, top = (picture.width - side) / 2, (picture.height - side) / 2
            box = (left, top, left + side, top + side)
        small = picture.resize(target, FILTERS[self.filter], box=box, reducing_gap=3.0)
        mean, deviation = (np.array(part, np.float32) for part in STATISTICS[self.statistics])
        pixels = (np.asarray(small, dtype=np.float32) / np.float32(255) - mean) / deviation
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def with_options(base: Preprocessing, options: Mapping[str, str], spec: str) -> Preprocessing:
    """``base`` changed by the user's ``size=288,resize=crop,…``."""
    allowed = {"resize": RESIZING, "filter": FILTERS, "statistics": STATISTICS}
    changed = base
    for key, value in options.items():
        if key == "size":
            if not value.isdigit() or not 8 <= int(value) <= 4096:
                raise InputError(f"encoder {spec}: size={value}; expected pixels, 8 to 4096")
            changed = replace(changed, size=int(value))
        elif key in allowed:
            if value not in allowed[key]:
                raise InputError(
                    f"encoder {spec}: {key}={value}; expected one of {', '.join(allowed[key])}"
                )
            fields = {
                "resize": changed.resize,
                "filter": changed.filter,
                "statistics": changed.statistics,
            }
            changed = Preprocessing(changed.size, **{**fields, key: value})
        else:
            raise InputError(
                f"encoder {spec}: unknown option '{key}'; expected size, resize, filter, statistics"
            )
    return changed


# open_encoder: the encoder a user names, ours or another package's.


GROUP = "heldout.encoders"


def _pixels(argument: str) -> Encoder:
    from heldout.overlap.images._pixels import PixelsEncoder

    if argument:
        raise InputError(f"encoder pixels:{argument}: pixels takes no argument")
    return PixelsEncoder()


def _onnx(argument: str) -> Encoder:
    from heldout.overlap.images._encoder_models import OnnxEncoder

    return OnnxEncoder(argument)


def _torchscript(argument: str) -> Encoder:
    from heldout.overlap.images._encoder_models import TorchScriptEncoder

    return TorchScriptEncoder(argument)


def _transformers(argument: str) -> Encoder:
    from heldout.overlap.images._encoder_models import TransformersEncoder

    return TransformersEncoder(argument)


def _open_clip(argument: str) -> Encoder:
    from heldout.overlap.images._encoder_models import OpenClipEncoder

    return OpenClipEncoder(argument)


BUILT_IN: dict[str, Callable[[str], Encoder]] = {
    "pixels": _pixels,
    "onnx": _onnx,
    "torchscript": _torchscript,
    "transformers": _transformers,
    "open_clip": _open_clip,
}


def open_encoder(spec: str) -> Encoder:
    """``pixels``, ``onnx:FILE``, ``torchscript:FILE#trust=yes``, ``transformers:NAME``, ``open_clip:MODEL/TAG``.

    Another package adds its own by the entry point group ``heldout.encoders``: a callable that takes
    what stands after the colon.
    """
    kind, _, argument = spec.partition(":")
    if kind in BUILT_IN:
        if kind != "pixels" and not argument:
            raise InputError(f"encoder {spec}: expected something after '{kind}:'")
        return BUILT_IN[kind](argument)
    for point in entry_points(group=GROUP):
        if point.name == kind:
            encoder = point.load()(argument)
            if not isinstance(encoder, Encoder):
                raise InputError(f"encoder {spec}: {point.value} did not return an Encoder")
            return encoder
    known = [*BUILT_IN, *sorted(point.name for point in entry_points(group=GROUP))]
    raise InputError(
        f"encoder {spec}: expected one of {', '.join(known)} (pixels needs no weights)"
    )
