"""Pictures with print in which one figure or word is another, for bench/pictures.py; the same from the same seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from planted_pictures import Draw, Picture, jpeg

NAMES = ("Adams", "Baker", "Clark", "Davis", "Evans", "Foster", "Green", "Hughes", "Irwin", "Jones")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Most are easily taken for each other.
OTHER = {
    "0": "8",
    "1": "7",
    "2": "9",
    "3": "8",
    "4": "1",
    "5": "6",
    "6": "8",
    "7": "2",
    "8": "3",
    "9": "0",
}


def edited(words: str) -> str:
    """The words with another figure for their last one, or another word."""
    if words[-1] in OTHER:
        return words[:-1] + OTHER[words[-1]]
    return next(name for name in (*MONTHS, *NAMES) if name not in words and len(name) == len(words))


def printed(kind: str, seed: int) -> tuple[Picture, Picture]:
    """A picture of a kind, and the same with one word or figure changed."""
    draw = np.random.default_rng([seed, KINDS.index(kind)])
    size, ink, words = _laid_out(kind, draw)
    place = int(draw.choice([n for n, (text, *_) in enumerate(words) if len(text) > 1]))
    ground = _ground(kind, size, draw, words)
    text, where, height = words[place]
    changed = [*words[:place], (edited(text), where, height), *words[place + 1 :]]
    return _written(ground, words, ink), _written(ground, changed, ink)


KINDS = ("table", "chart", "chart in grey ink", "film")
Words = list[tuple[str, tuple[float, float], float]]  # text, place, height


def _laid_out(kind: str, draw: Draw) -> tuple[tuple[int, int], int, Words]:
    width = int(draw.integers(600, 1601))
    size = (width, round(width * float(draw.uniform(0.6, 0.9))))
    height = float(draw.integers(14, 27))
    words: Words = []
    if kind == "table":
        columns, line = max(3, round(width / (6 * height))), 1.8 * height
        for row in range(int((size[1] - 2 * line) // line)):
            for column in range(columns):
                text = (
                    NAMES[int(draw.integers(len(NAMES)))]
                    if not column
                    else f"{draw.uniform(1, 99):.1f}"
                )
                words.append(
                    (text, (height + column * (width - height) / columns, line * (row + 1)), height)
                )
    elif kind == "film":
        for n, text in enumerate(
            (
                f"Study {draw.integers(1000, 9999)}",
                f"kV {draw.integers(60, 130)}",
                f"Slice {draw.integers(10, 99)}",
            )
        ):
            words.append((text, (12.0, 10.0 + 1.4 * height * n), height))
    else:
        bars = int(draw.integers(6, 12))
        for n in range(bars):
            x = 80 + n * (width - 120) / bars
            words.append((MONTHS[n], (x, size[1] - 50.0), height))
            words.append(
                (f"{draw.integers(10, 99)}", (x, float(draw.uniform(60, size[1] - 150))), height)
            )
    return size, {"film": 250, "chart in grey ink": 110}.get(kind, 0), words


def _ground(kind: str, size: tuple[int, int], draw: Draw, words: Words) -> Picture:
    if kind == "film":
        y, x = np.mgrid[: size[1], : size[0]] / min(size)
        noise = Image.fromarray(draw.integers(0, 256, x.shape, dtype=np.uint8))
        grain = sum(
            (np.asarray(noise.filter(ImageFilter.GaussianBlur(r)), float) - 128) * r
            for r in (2, 9, 30)
        )
        light = 190 * np.exp(-((x - x.mean()) ** 2 + (y - 0.5) ** 2) / 0.12) + 0.8 * grain
        return Image.fromarray(np.clip(light, 0, 255).astype(np.uint8))
    page = Image.new("L", size, 255)
    pen = ImageDraw.Draw(page)
    for text, (x, y), height in words:
        if kind == "table" and x == height:
            pen.line(
                (height / 2, y - 0.3 * height, size[0] - height / 2, y - 0.3 * height), fill=190
            )
        elif kind != "table" and text.isdigit():
            ink = 150 if kind == "chart in grey ink" else 70
            pen.rectangle((x, y + 1.4 * height, x + 1.6 * height, size[1] - 60), fill=ink)
    if kind != "table":
        pen.line((60, 40, 60, size[1] - 58, size[0] - 20, size[1] - 58), fill=0, width=2)
    return page


def _written(ground: Picture, words: Words, ink: int) -> Picture:
    page = ground.copy()
    pen = ImageDraw.Draw(page)
    for text, where, height in words:
        pen.text(where, text, fill=ink, font=ImageFont.load_default(size=height))
    return page


def stored(picture: Picture, scale: float) -> Picture:
    """Compressed, and made smaller first where ``scale`` is below 1."""
    size = (round(picture.width * scale), round(picture.height * scale))
    return jpeg(picture if scale == 1 else picture.resize(size, Image.Resampling.LANCZOS), 85)


def pairs(half: int, count: int, seed: int) -> Iterator[tuple[str, Picture, Picture, Picture]]:
    """Kind and transform, a picture, its copy, and its copy with one word or figure changed."""
    for kind in KINDS:
        for number in range(count):
            one, other = printed(kind, 2 * (1000 * seed + number) + half)
            scale = (1.0, 0.8, 0.65, 0.5)[number % 4]
            way = "compressed" if scale == 1 else "made smaller"
            yield f"{kind}, {way}", one, stored(one, scale), stored(other, scale)
