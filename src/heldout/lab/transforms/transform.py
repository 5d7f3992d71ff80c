"""Transforms that pictures undergo on the way into a corpus, as named, seeded functions on images.

The first eighteen are the seed study's (Data Leakage in Visual Datasets, section 6.1). It names
them without their strengths; ours are the ones written beside each entry of ``TRANSFORMS``. The others are
common in publishing: quarter turns, halving crops, JPEG, watermarks,
frames, compound figures.
"""

from __future__ import annotations

import functools
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from heldout.image import to_rgb
from heldout.scenes import border, compound, watermark

Others = Sequence[Image.Image]
Apply = Callable[[Image.Image, np.random.Generator, Others], Image.Image]

SMALLEST_CROP = 32  # pixels a crop leaves of the shorter side at the least


@dataclass(frozen=True)
class Transform:
    """``least_side``: a picture whose shorter side is below it is left out, not treated half."""

    name: str
    family: str
    description: str
    apply: Apply
    least_side: int = 1
    others: int = 0  # how many other pictures it wants beside the one it transforms
    in_seed: bool = False  # one of the seed study's

    def applies_to(self, size: tuple[int, int]) -> bool:
        return min(size) >= self.least_side

    def __call__(
        self, image: Image.Image, *, seed: int = 0, key: str = "", others: Others = ()
    ) -> Image.Image:
        """The transformed picture; the draws depend on ``seed``, the transform and ``key`` alone.

        ``key`` names the picture (its digest): with one noise field for all pictures, the pictures
        would come to resemble each other.
        """
        picture = image if image.mode in ("L", "RGB") else to_rgb(image)
        stream = [seed, zlib.crc32(self.name.encode()), zlib.crc32(key.encode())]
        return self.apply(picture, np.random.default_rng(stream), others)


@dataclass(frozen=True)
class _Plain:
    """A transform that draws nothing and needs no other picture; unlike a closure, it pickles."""

    function: Callable[[Image.Image], Image.Image]

    def __call__(
        self, image: Image.Image, _rng: np.random.Generator, _others: Others
    ) -> Image.Image:
        return self.function(image)


def _as_it_is(image: Image.Image) -> Image.Image:
    return image


def _blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(2))


def _rotated(image: Image.Image, degrees: int) -> Image.Image:
    """On a canvas of the same size: corners are lost and black comes in, as in the seed's tools."""
    return image.rotate(degrees, Image.Resampling.BILINEAR)


def _without_margin(image: Image.Image, margin: int) -> Image.Image:
    return image.crop((margin, margin, image.width - margin, image.height - margin))


def _half(image: Image.Image, rng: np.random.Generator, _others: Others) -> Image.Image:
    """A window of half the area and the same proportions, anywhere in the picture."""
    width, height = (max(1, round(side * 0.5**0.5)) for side in image.size)
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    return image.crop((left, top, left + width, top + height))


def _noisy(image: Image.Image, rng: np.random.Generator, _others: Others) -> Image.Image:
    pixels = np.asarray(image, dtype=np.float32)
    noise = rng.standard_normal(pixels.shape, dtype=np.float32) * 25.0
    return Image.fromarray(np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8))


def _downsized(image: Image.Image, side: int) -> Image.Image:
    share = side / min(image.size)
    size = (max(1, round(image.width * share)), max(1, round(image.height * share)))
    return image.resize(size, Image.Resampling.BICUBIC)


def _grey(image: Image.Image) -> Image.Image:
    return image.convert("L").convert(image.mode)


def _coloured(image: Image.Image, channel: int) -> Image.Image:
    """Brightness shown in one colour alone, black to full red, green or blue."""
    bands = [Image.new("L", image.size)] * 3
    bands[channel] = image.convert("L")
    return Image.merge("RGB", bands)


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as stored:
        return stored.convert(image.mode)


def _toned(image: Image.Image, gamma: float, gain: float, offset: float) -> Image.Image:
    """All channels through one tone curve; what leaves the range is clipped."""
    levels = 255 * (gain * (np.arange(256) / 255) ** gamma + offset)
    curve = np.clip(np.rint(levels), 0, 255).astype(int).tolist()
    return image.point(curve * len(image.getbands()))


def _turn(image: Image.Image, quarter: Image.Transpose) -> Image.Image:
    return image.transpose(quarter)


def _table() -> dict[str, Transform]:
    transforms: list[Transform] = []

    def add(
        name: str,
        family: str,
        description: str,
        apply: Apply,
        *,
        least_side: int = 1,
        others: int = 0,
        in_seed: bool = False,
    ) -> None:
        transforms.append(Transform(name, family, description, apply, least_side, others, in_seed))

    seed = functools.partial(add, in_seed=True)
    add("original", "original", "as it was published", _Plain(_as_it_is))
    seed("flip-v", "geometric", "top and bottom exchanged", _Plain(ImageOps.flip))
    seed("flip-h", "geometric", "left and right exchanged", _Plain(ImageOps.mirror))
    for degrees in (45, 135, 225, 315):
        seed(
            f"rot-{degrees}",
            "geometric",
            f"turned {degrees}° on a canvas of the same size",
            _Plain(functools.partial(_rotated, degrees=degrees)),
        )
    for margin in (20, 50, 100):
        seed(
            f"crop-{margin}",
            "cropping",
            f"{margin} pixels removed from all four sides",
            _Plain(functools.partial(_without_margin, margin=margin)),
            least_side=2 * margin + SMALLEST_CROP,
        )
    seed("gauss", "pixelization", "Gaussian blur, σ = 2 pixels", _Plain(_blurred))
    seed("noise", "pixelization", "Gaussian noise, σ = 25 of 255 levels", _noisy)
    for side in (128, 256):
        seed(
            f"rs-{side}",
            "pixelization",
            f"shorter side reduced to {side} pixels",
            _Plain(functools.partial(_downsized, side=side)),
            least_side=side + 1,
        )
    seed("gray", "colour", "brightness without colour", _Plain(_grey))
    seed("invert", "colour", "every level inverted", _Plain(ImageOps.invert))
    for channel, colour in enumerate(("red", "green", "blue")):
        seed(
            colour,
            "colour",
            f"brightness in {colour} alone",
            _Plain(functools.partial(_coloured, channel=channel)),
        )
    for name, description, gamma, gain, offset in (
        ("gamma-0.5", "gamma of 0.5, lighter", 0.5, 1.0, 0.0),
        ("gamma-2", "gamma of 2, darker", 2.0, 1.0, 0.0),
        ("bright", "30 % brighter, highlights clipped", 1.0, 1.3, 0.0),
        ("contrast", "contrast 1.5 times, both ends clipped", 1.0, 1.5, -0.25),
    ):
        curve = functools.partial(_toned, gamma=gamma, gain=gain, offset=offset)
        add(name, "tone", description, _Plain(curve))
    add("equalize", "tone", "histogram equalised", _Plain(ImageOps.equalize))
    for degrees in (90, 180, 270):
        quarter = Image.Transpose[f"ROTATE_{degrees}"]
        add(
            f"rot-{degrees}",
            "geometric",
            f"turned {degrees}°, nothing lost",
            _Plain(functools.partial(_turn, quarter=quarter)),
        )
    add("crop-half", "cropping", "a window of half the area, anywhere", _half, least_side=2)
    for quality in (30, 75):
        add(
            f"jpeg-{quality}",
            "publishing",
            f"JPEG of quality {quality}",
            _Plain(functools.partial(_jpeg, quality=quality)),
        )
    add("watermark", "publishing", "translucent slanted text across the picture", watermark)
    add("border", "publishing", "a plain frame, 4 to 12 % of each side", border)
    for count in (2, 4, 6):
        add(
            f"compound-{count}",
            "publishing",
            f"one panel of a figure of {count}",
            functools.partial(compound, count=count),
            others=count - 1,
        )
    return {transform.name: transform for transform in transforms}


TRANSFORMS: Mapping[str, Transform] = _table()
