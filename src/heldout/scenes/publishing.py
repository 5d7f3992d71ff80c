"""What publishing does to a picture: a watermark, a frame, a place among the panels of a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from heldout.scenes.world import pick

LONGEST_FIGURE = 2048  # pixels; journals scale figures down, and so do we
_WORDS = ("PREVIEW", "SAMPLE COPY", "© Archive", "teaching file")


def watermark(
    image: Image.Image, rng: np.random.Generator, _others: Sequence[Image.Image] = ()
) -> Image.Image:
    """Translucent white or black text across the picture, slanted, somewhere near its middle."""
    text = _WORDS[rng.integers(len(_WORDS))]
    level = int(rng.choice([0, 255]))
    font = ImageFont.load_default(size=max(8.0, 1.6 * image.width / len(text)))
    left, top, right, bottom = (int(edge) for edge in font.getbbox(text))
    stamp = Image.new("L", (max(1, right - left), max(1, bottom - top)))
    ImageDraw.Draw(stamp).text((-left, -top), text, fill=int(rng.integers(90, 150)), font=font)
    stamp = stamp.rotate(float(rng.uniform(10, 35)), Image.Resampling.BILINEAR, expand=True)
    corner = tuple(
        round((whole - part) / 2 + float(rng.uniform(-0.1, 0.1)) * whole)
        for whole, part in zip(image.size, stamp.size, strict=True)
    )
    ink = Image.new(image.mode, stamp.size, (level,) * len(image.getbands()))
    marked = image.copy()
    marked.paste(ink, (corner[0], corner[1]), stamp)
    return marked


def border(
    image: Image.Image, rng: np.random.Generator, _others: Sequence[Image.Image] = ()
) -> Image.Image:
    """A white, black or grey frame; each of its four sides has its own width."""
    width, height = image.size
    left, right = (max(1, round(width * share)) for share in rng.uniform(0.04, 0.12, 2))
    top, bottom = (max(1, round(height * share)) for share in rng.uniform(0.04, 0.12, 2))
    level = int(rng.choice([0, 128, 255]))
    return ImageOps.expand(image, (left, top, right, bottom), (level,) * len(image.getbands()))


def compound(
    image: Image.Image, rng: np.random.Generator, others: Sequence[Image.Image], count: int
) -> Image.Image:
    """A figure of ``count`` panels with letters; the picture is one of them, the rest are others.

    Panels are as large as the picture; the whole figure is scaled down where it is larger than
    ``LONGEST_FIGURE``. Others keep their proportions.
    """
    if len(others) < count - 1:
        raise ValueError(f"a figure of {count} needs {count - 1} other pictures; got {len(others)}")
    place = int(rng.integers(count))
    rows, columns = _grid(count, rng)
    gutter = max(2, round(0.03 * max(image.size)))
    width, height = image.size
    scale = min(1.0, LONGEST_FIGURE / max(columns * (width + gutter), rows * (height + gutter)))
    panel = (max(1, round(width * scale)), max(1, round(height * scale)))
    gutter = max(2, round(gutter * scale))
    figure = Image.new(
        "RGB",
        (columns * (panel[0] + gutter) + gutter, rows * (panel[1] + gutter) + gutter),
        "white",
    )
    pictures = [other.convert("RGB") for other in others[: count - 1]]
    pictures.insert(place, image.convert("RGB"))
    font = ImageFont.load_default(size=max(8.0, 0.06 * min(panel)))
    draw = ImageDraw.Draw(figure)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        corner = (gutter + column * (panel[0] + gutter), gutter + row * (panel[1] + gutter))
        fitted = picture if picture.size == panel else _fitted(picture, panel)
        inset = [(whole - part) // 2 for whole, part in zip(panel, fitted.size, strict=True)]
        figure.paste(fitted, (corner[0] + inset[0], corner[1] + inset[1]))
        draw.text(
            (corner[0] + 2, corner[1] + 1),
            "ABCDEF"[index],
            font=font,
            fill="white",
            stroke_width=1,
            stroke_fill="black",
        )
    return figure


def _fitted(picture: Image.Image, panel: tuple[int, int]) -> Image.Image:
    share = min(panel[0] / picture.width, panel[1] / picture.height)
    size = (max(1, round(picture.width * share)), max(1, round(picture.height * share)))
    return picture.resize(size, Image.Resampling.BICUBIC)


def _grid(count: int, rng: np.random.Generator) -> tuple[int, int]:
    """Rows and columns that hold ``count`` panels, lying or standing."""
    short = 1 if count <= 3 else 2
    long = math.ceil(count / short)
    return (short, long) if rng.integers(2) else (long, short)


# Other colours for a whole picture: its detail stays, as on a printed or tinted film.


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
        shifted = hue.point([(value + round(degrees * 256 / 360)) % 256 for value in range(256)])
        return Image.merge("HSV", (shifted, strength, level)).convert("RGB")

    return turn


def _is_grey(picture: Image.Image) -> bool:
    red, green, blue = picture.split()
    return red.tobytes() == green.tobytes() == blue.tobytes()
