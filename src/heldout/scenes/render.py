"""Paint a scene: anti-aliased shapes with a pattern, soft light and a shadow on a soft gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from heldout.scenes.world import BACKGROUNDS, COLOURS, Background, Scene, SceneObject

Canvas = NDArray[np.floating[Any]]  # (3, height, width), or one plane
Points = list[tuple[float, float]]

# Outlines are drawn this many times larger and averaged down, each in its own small box:
# painting the whole picture at that size would cost sixteen times as much.
_OVERSAMPLING = 4
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)[:, None, None]
_PERIOD = 0.04  # of stripes, dots and squares, as a share of the picture's side


def render(scene: Scene, size: int = 224) -> Image.Image:
    """The scene as an RGB picture, ``size`` pixels wide and high; same scene, same pixels."""
    masks = [_mask(item, size) for item in scene.objects]
    silhouette = Image.new("L", (size, size))
    for mask, corner in masks:
        silhouette.paste(255, corner, mask)  # boxes may overlap where shapes do not
    # Objects keep a distance, so that one blur of the whole picture serves them all.
    coarse = silhouette.reduce(2).filter(ImageFilter.GaussianBlur(0.007 * size))
    shadow = ImageChops.offset(
        coarse.resize((size, size), Image.Resampling.BILINEAR),
        round(0.01 * size),
        round(0.018 * size),
    )
    depth = _levels(silhouette.filter(ImageFilter.BoxBlur(0.011 * size)))
    canvas = _background(scene.background, size)
    canvas *= 1 - np.float32(0.34) * _levels(shadow)
    for item, (mask, (left, top)) in zip(scene.objects, masks, strict=True):
        box = np.s_[top : top + mask.height, left : left + mask.width]
        target = canvas[:, *box]
        target += (_surface(item, (left, top), depth[box], size) - target) * _levels(mask)
    canvas += np.float32(0.5)
    np.clip(canvas, 0, 255, out=canvas)
    return Image.merge("RGB", [Image.fromarray(plane) for plane in canvas.astype(np.uint8)])


def _background(background: Background, size: int) -> Canvas:
    start, end = (_planes(colour) for colour in BACKGROUNDS[background.tone])
    across, down = math.cos(background.angle), math.sin(background.angle)
    steps = np.linspace(-1, 1, size, dtype=np.float32) / np.float32(2 * (abs(across) + abs(down)))
    slope = steps[None, :] * np.float32(across) + steps[:, None] * np.float32(down)
    light = _blotches(np.random.default_rng(background.grain), size)
    canvas: Canvas = (end - start) * (slope + np.float32(0.5))
    canvas += light + start
    return canvas


def _blotches(rng: np.random.Generator, size: int, cells: int = 24) -> Canvas:
    """Soft unevenness of the paper: coarse and fine random grids, enlarged together."""
    coarse = Image.fromarray(rng.random((4, 4), dtype=np.float32) - np.float32(0.5))
    enlarged = np.asarray(coarse.resize((cells, cells), Image.Resampling.BICUBIC))
    fine = rng.random((cells, cells), dtype=np.float32) - np.float32(0.5)
    grid = Image.fromarray(enlarged * np.float32(18) + fine * np.float32(6))
    return np.asarray(grid.resize((size, size), Image.Resampling.BICUBIC))


def _surface(item: SceneObject, corner: tuple[int, int], depth: Canvas, size: int) -> Canvas:
    """The object's own colours: pattern, light from the upper left, a glow and a darker rim."""
    radius = item.radius * size
    height, width = depth.shape
    x, y = (item.position[axis] * size - corner[axis] - 0.5 for axis in (0, 1))
    across = (np.arange(width, dtype=np.float32) - np.float32(x))[None, :]
    down = (np.arange(height, dtype=np.float32) - np.float32(y))[:, None]
    colour = _planes(COLOURS[item.colour])
    ink = _PATTERNS[item.texture](across, down, _PERIOD * size)
    slant = 1 - (across + down) * np.float32(0.045 / radius)
    glow = np.exp(-((across / radius + 0.35) ** 2) / 0.18) * np.exp(
        -((down / radius + 0.4) ** 2) / 0.18
    )
    rim = 0.72 + 0.28 * _share(2.2 * depth - 1.0)
    glow *= 0.16
    surface: Canvas = (colour + (_contrast(colour) - colour) * ink) * (slant * (1 - glow) * rim)
    surface += 255 * glow * rim
    return surface


def _planes(colour: tuple[int, int, int]) -> Canvas:
    """A colour that broadcasts over a canvas; planes, not pixels, keep NumPy's inner loops long."""
    return np.array(colour, dtype=np.float32)[:, None, None]


def _levels(image: Image.Image) -> Canvas:
    return np.asarray(image, dtype=np.float32) / 255


def _contrast(colour: Canvas) -> Canvas:
    """The second colour of a pattern: a tint of a dark colour, a shade of a light one."""
    light = float((colour * _LUMA).sum()) > 150
    return colour * np.float32(0.72) if light else colour + (255 - colour) * np.float32(0.52)


def _stripes(across: Canvas, down: Canvas, period: float) -> Canvas:
    return _soft(np.sin((across + down) * np.float32(2 * math.pi / period / math.sqrt(2))), period)


def _dots(across: Canvas, down: Canvas, period: float) -> Canvas:
    pitch = np.float32(1.25 * period)
    x, y = (np.abs(np.mod(axis / pitch, 1) - np.float32(0.5)) for axis in (across, down))
    return _share((np.float32(0.3) - np.hypot(x, y)) * pitch + np.float32(0.5))


def _checks(across: Canvas, down: Canvas, period: float) -> Canvas:
    turn = np.float32(math.pi / period)
    return _soft(np.sin(across * turn) * np.sin(down * turn) * 2, period)


def _plain(across: Canvas, down: Canvas, period: float) -> Canvas:
    return np.zeros((1, 1), dtype=np.float32)


def _soft(wave: Canvas, period: float) -> Canvas:
    """A wave made into two tones whose border is about one pixel wide."""
    return _share(np.float32(0.5) + wave * np.float32(period / 6))


def _share(values: Canvas) -> Canvas:
    return np.minimum(np.maximum(values, np.float32(0)), np.float32(1))


_PATTERNS: dict[str, Callable[[Canvas, Canvas, float], Canvas]] = {
    "plain": _plain,
    "striped": _stripes,
    "dotted": _dots,
    "checkered": _checks,
}


def _mask(item: SceneObject, size: int) -> tuple[Image.Image, tuple[int, int]]:
    """How much of each pixel the object covers, and where the mask's upper left corner lies."""
    scale, radius = _OVERSAMPLING, item.radius * size
    left, top = (math.floor(item.position[axis] * size - radius) for axis in (0, 1))
    side = math.ceil(2 * radius) + 1
    large = Image.new("L", (side * scale, side * scale))
    draw = ImageDraw.Draw(large)
    x, y = (item.position[0] * size - left) * scale, (item.position[1] * size - top) * scale
    radius *= scale

    def disc(dx: float, dy: float, share: float, fill: int) -> None:
        middle_x, middle_y, reach = x + dx * radius, y + dy * radius, share * radius
        box = (middle_x - reach, middle_y - reach, middle_x + reach, middle_y + reach)
        draw.ellipse(box, fill=fill)

    if item.shape in _OUTLINES:
        draw.polygon(
            [(x + px * radius, y + py * radius) for px, py in _OUTLINES[item.shape]], fill=255
        )
    elif item.shape == "circle":
        disc(0, 0, 0.94, 255)
    elif item.shape == "ring":
        disc(0, 0, 0.97, 255)
        disc(0, 0, 0.47, 0)
    elif item.shape == "crescent":
        disc(0, 0, 1.0, 255)
        disc(0.48, -0.2, 0.78, 0)
    else:
        raise ValueError(f"there is no shape '{item.shape}'")
    return large.reduce(scale), (left, top)


def _corners(count: int, turn: float = 0.0) -> Points:
    angles = [turn - math.pi / 2 + 2 * math.pi * k / count for k in range(count)]
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def _star() -> Points:
    outer, inner = _corners(5), [(0.45 * x, 0.45 * y) for x, y in _corners(5, math.pi / 5)]
    return [point for pair in zip(outer, inner, strict=True) for point in pair]


def _heart() -> Points:
    points = []
    for t in np.linspace(0, 2 * math.pi, 72, endpoint=False).tolist():
        x = 16 * math.sin(t) ** 3
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((x / 17.5, -(y + 2.5) / 17.5))
    return points


def _cross(arm: float = 0.34, reach: float = 0.93) -> Points:
    a, r = arm, reach
    return [
        (-a, -r),
        (a, -r),
        (a, -a),
        (r, -a),
        (r, a),
        (a, a),
        (a, r),
        (-a, r),
        (-a, a),
        (-r, a),
        (-r, -a),
        (-a, -a),
    ]


_OUTLINES: dict[str, Points] = {
    "square": [(-0.7, -0.7), (0.7, -0.7), (0.7, 0.7), (-0.7, 0.7)],
    "triangle": _corners(3),
    "diamond": [(0.0, -1.0), (0.64, 0.0), (0.0, 1.0), (-0.64, 0.0)],  # slim: never a tilted square
    "hexagon": _corners(6),
    "star": _star(),
    "heart": _heart(),
    "cross": _cross(),
}
