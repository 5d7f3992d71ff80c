"""The transforms of the robustness study, as functions on pictures, for the benches."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

Picture = Image.Image
Maker = Callable[[Picture, np.random.Generator, list[Picture]], Picture | None]


def _turn(picture: Picture, degrees: int) -> Picture:
    straight = degrees % 90 == 0
    return picture.rotate(degrees, Image.Resampling.BILINEAR, expand=straight)


def _trim(picture: Picture, pixels: int) -> Picture | None:
    if min(picture.size) <= 2 * pixels + 32:
        return None
    return picture.crop((pixels, pixels, picture.width - pixels, picture.height - pixels))


def _half(picture: Picture, random: np.random.Generator) -> Picture:
    width, height = (int(side * 0.5**0.5) for side in picture.size)
    x = int(random.integers(picture.width - width + 1))
    y = int(random.integers(picture.height - height + 1))
    return picture.crop((x, y, x + width, y + height))


def _noise(picture: Picture, random: np.random.Generator, sigma: float) -> Picture:
    pixels = np.asarray(picture, dtype=np.float32)
    noisy = pixels + random.normal(0.0, sigma, (*pixels.shape[:2], 1))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def _colour(picture: Picture, channel: int) -> Picture:
    pixels = np.zeros((picture.height, picture.width, 3), np.uint8)
    pixels[..., channel] = np.asarray(picture.convert("L"))
    return Image.fromarray(pixels)


def _jpeg(picture: Picture, quality: int) -> Picture:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def _watermark(picture: Picture) -> Picture:
    marked = picture.copy()
    place = (picture.width * 0.1, picture.height * 0.45)
    size = max(12, picture.width // 10)
    ImageDraw.Draw(marked).text(place, "SAMPLE COPY", fill=(255, 255, 255), font_size=size)
    return marked


def _compound(
    picture: Picture, random: np.random.Generator, others: list[Picture], count: int
) -> Picture:
    columns = {2: 2, 3: 3, 4: 2, 6: 3}[count]
    cell = max(200, min(480, *picture.size))
    place = int(random.integers(count))
    wide, tall = (columns * (cell + 10) + 10, count // columns * (cell + 10) + 10)
    page = Image.new("RGB", (wide, tall), (255, 255, 255))
    for index in range(count):
        panel = ImageOps.contain(picture if index == place else others[index], (cell, cell))
        page.paste(panel, (10 + index % columns * (cell + 10), 10 + index // columns * (cell + 10)))
    return _jpeg(page, 85)


def _plain(change: Callable[[Picture], Picture | None]) -> Maker:
    return lambda picture, random, others: change(picture)


# Name, maker, whether the requirement of REQUIRED recall holds for it.
TRANSFORMS: dict[str, tuple[Maker, bool]] = {
    "none": (_plain(lambda picture: picture), True),
    "flip-h": (_plain(ImageOps.mirror), True),
    "flip-v": (_plain(ImageOps.flip), True),
    **{
        f"rot-{angle}": (_plain(partial(_turn, degrees=angle)), True)
        for angle in (90, 180, 270, 45, 135, 225, 315)
    },
    **{f"crop-{pixels}": (_plain(partial(_trim, pixels=pixels)), True) for pixels in (20, 50, 100)},
    "crop to half the area": (lambda picture, random, others: _half(picture, random), True),
    "blur (radius 3)": (_plain(lambda p: p.filter(ImageFilter.GaussianBlur(3))), False),
    "noise 5 %": (lambda picture, random, others: _noise(picture, random, 12.75), True),
    "noise 10 %": (lambda picture, random, others: _noise(picture, random, 25.5), True),
    "rs-128": (_plain(lambda p: p.resize((128, 128), Image.Resampling.BICUBIC)), True),
    "rs-256": (_plain(lambda p: p.resize((256, 256), Image.Resampling.BICUBIC)), True),
    "grey": (_plain(lambda picture: picture.convert("L")), True),
    "invert": (_plain(ImageOps.invert), True),
    **{
        name: (_plain(partial(_colour, channel=channel)), False)
        for channel, name in enumerate(("red", "green", "blue"))
    },
    **{
        f"JPEG {quality}": (_plain(partial(_jpeg, quality=quality)), True)
        for quality in (30, 50, 70, 90)
    },
    "watermark": (_plain(_watermark), False),
    "border": (
        _plain(lambda p: ImageOps.expand(p, max(10, p.width // 12), (255, 255, 255))),
        False,
    ),
    **{f"panel of {count}": (partial(_compound, count=count), False) for count in (2, 3, 4, 6)},
}
