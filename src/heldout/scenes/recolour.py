"""Other colours for a whole picture: its detail stays, as on a film that somebody printed or tinted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageOps

from heldout.scenes.world import pick

_INKS = {  # what is dark, and what is light
    "sepia": ("#241505", "#fff3df"),
    "blue": ("#04122e", "#eaf4ff"),
    "green": ("#03200c", "#efffef"),
}


def recolour(picture: Image.Image, rng: np.random.Generator) -> tuple[Image.Image, str]:
    """The recoloured picture and how: only ways that change it are drawn."""
    ways: dict[str, Callable[[], Image.Image]] = {
        "inverted": lambda: ImageOps.invert(picture),
        "brighter": lambda: _gamma(picture, 0.6),
        "darker": lambda: _gamma(picture, 1.6),
    }
    for ink, (dark, light) in _INKS.items():
        ways[f"tinted {ink}"] = _tinted(picture, dark, light)
    if not _is_grey(picture):
        ways["grey"] = lambda: picture.convert("L").convert("RGB")
        for degrees in (60, 120, 180):
            ways[f"hues turned by {degrees}°"] = _turned(picture, degrees)
    way = pick(rng, tuple(ways))
    return ways[way](), way


def _gamma(picture: Image.Image, power: float) -> Image.Image:
    levels = np.rint(255 * (np.arange(256) / 255) ** power).astype(int).tolist()
    return picture.point(levels * 3)


def _tinted(picture: Image.Image, dark: str, light: str) -> Callable[[], Image.Image]:
    return lambda: ImageOps.colorize(picture.convert("L"), dark, light)


def _turned(picture: Image.Image, degrees: int) -> Callable[[], Image.Image]:
    def turn() -> Image.Image:
        hue, strength, level = picture.convert("HSV").split()
        shifted = hue.point([(one + round(degrees * 256 / 360)) % 256 for one in range(256)])
        return Image.merge("HSV", (shifted, strength, level)).convert("RGB")

    return turn


def _is_grey(picture: Image.Image) -> bool:
    red, green, blue = picture.split()
    return red.tobytes() == green.tobytes() == blue.tobytes()
