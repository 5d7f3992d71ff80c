"""Expose a film: soft organs, ribs or skull, lesions, devices and the side marker, in grey."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from heldout.scenes.films import ZONES, Film, Lesion

Plane = NDArray[np.floating[Any]]
_EDGE = 0.02  # how soft a border is, as a share of the picture
# As on real films some lesions are plain and some are hardly there: how much of its full level one has.
_CONSPICUOUS = (0.05, 0.45)
_MOTTLE = 12.0  # grey levels


class _Body:
    """Where things lie in one patient: a plane of co-ordinates, tilted, scaled and shifted."""

    def __init__(self, patient: int, size: int) -> None:
        self.rng = np.random.default_rng(patient)
        tilt, scale = self.rng.normal(0, 0.03), self.rng.normal(1.0, 0.035)
        shift_x, shift_y = self.rng.normal(0, 0.012, 2)
        axis = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
        x, y = axis[None, :] - shift_x, axis[:, None] - shift_y
        self.x = (x * math.cos(tilt) + y * math.sin(tilt)) / scale
        self.y = (y * math.cos(tilt) - x * math.sin(tilt)) / scale
        self.size = size
        self.film = np.zeros((size, size), dtype=np.float32)

    def near(self, value: float, spread: float = 0.05) -> float:
        return float(value * (1 + self.rng.normal(0, spread)))

    def oval(self, x: float, y: float, width: float, height: float, edge: float = _EDGE) -> Plane:
        reach = np.hypot((self.x - x) / width, (self.y - y) / height)
        covered: Plane = np.clip(0.5 - (reach - 1) * min(width, height) / edge, 0, 1)
        return covered

    def add(self, mask: Plane, level: float) -> None:
        self.film += mask * np.float32(level)


def render_film(film: Film, size: int = 224) -> Image.Image:
    """The film as an RGB picture of three equal planes; same film, same pixels."""
    body = _Body(film.patient, size)
    {"chest": _chest, "abdomen": _abdomen, "head": _head}[film.view](body, film.enlarged)
    light = body.near(1.0, 0.08)
    for lesion in film.lesions:
        # Generators of their own: a lesion that comes or goes leaves every other pixel as it was.
        body.rng = np.random.default_rng((film.patient, 1 + ZONES.index(lesion.zone)))
        _lesion(body, film.view, lesion)
    grain = _grain(np.random.default_rng((film.patient, 101)), size)
    levels = np.clip(255 * (0.06 + light * np.clip(body.film, 0, 1.05)) + grain, 0, 255)
    picture = Image.fromarray(levels.astype(np.uint8))
    _draw(picture, film, np.random.default_rng((film.patient, 102)))
    return Image.merge("RGB", [picture] * 3)


def _chest(body: _Body, enlarged: str | None) -> None:
    body.add(body.oval(0, 0.08, body.near(0.46), body.near(0.56)), 0.42)
    for side in (-1, 1):
        lung = body.oval(side * body.near(0.2, 0.03), 0.0, body.near(0.155), body.near(0.3))
        body.add(lung, -0.3)
        bow = body.y + 0.5 * body.x**2
        ribs = np.clip(np.sin(bow * body.near(52, 0.03)) - 0.35, 0, 1)
        body.add(ribs * lung, 0.12)
    body.add(body.oval(0, 0.05, 0.035, 0.6), 0.24)
    grown = 1.55 if enlarged == "heart" else 1.0
    body.add(body.oval(0.06, 0.13, body.near(0.105) * grown, body.near(0.115) * grown), 0.26)
    arch = 0.075 if enlarged == "aorta" else 0.035
    body.add(body.oval(0.045, -0.15, body.near(arch), body.near(arch)), 0.3)


def _abdomen(body: _Body, enlarged: str | None) -> None:
    body.add(body.oval(0, 0.02, body.near(0.43), body.near(0.52)), 0.3)
    body.add(body.oval(0, 0.05, 0.045, 0.5), 0.25)
    grown = 1.4 if enlarged == "liver" else 1.0
    body.add(body.oval(-0.2, -0.24, body.near(0.15) * grown, body.near(0.1) * grown), 0.2)
    grown = 1.9 if enlarged == "spleen" else 1.0
    body.add(body.oval(0.27, -0.27, body.near(0.055) * grown, body.near(0.065) * grown), 0.24)
    for side in (-1, 1):
        body.add(body.oval(side * body.near(0.15), 0.02, 0.045, body.near(0.095)), 0.16)
    body.add(body.oval(-0.17, 0.4, 0.13, 0.09) + body.oval(0.17, 0.4, 0.13, 0.09), 0.2)


def _head(body: _Body, enlarged: str | None) -> None:
    width, height = body.near(0.36), body.near(0.44)
    body.add(body.oval(0, 0, width, height), 0.75)
    body.add(body.oval(0, 0, width * 0.9, height * 0.91), -0.42)
    body.add(body.oval(0, 0, 0.008, height * 0.85), 0.1)
    grown = 1.75 if enlarged == "ventricles" else 1.0
    for side in (-1, 1):
        width, height = body.near(0.032) * grown, body.near(0.09) * grown
        body.add(body.oval(side * 0.06, -0.02, width, height), -0.22)
    hollow = 0.085 if enlarged == "sinus" else 0.042
    body.add(body.oval(0, 0.3, body.near(hollow), body.near(hollow) * 0.8), -0.26)


_PLACES = {  # the middle of a zone, from the middle of the picture
    "chest": (0.21, 0.15),
    "abdomen": (0.25, 0.19),
    "head": (0.19, 0.19),
}


def _lesion(body: _Body, view: str, lesion: Lesion) -> None:
    side, level, _ = lesion.zone.split()
    across, down = _PLACES[view]
    x = across * (1 if side == "left" else -1) + body.rng.uniform(-0.03, 0.03)
    y = down * (-1 if level == "upper" else 1) + body.rng.uniform(-0.03, 0.03)
    seen = float(body.rng.uniform(*_CONSPICUOUS))
    if lesion.kind == "nodule":
        body.add(body.oval(x, y, body.near(0.042), body.near(0.042)), 0.5 * seen)
    elif lesion.kind == "cavity":
        radius = body.near(0.06)
        ring = body.oval(x, y, radius, radius) - body.oval(x, y, radius * 0.55, radius * 0.55)
        body.add(ring, 0.48 * seen)
    else:
        width, height = body.near(0.1), body.near(0.075)
        body.add(body.oval(x, y, width, height, edge=0.09), 0.3 * seen)


def _grain(rng: np.random.Generator, size: int) -> Plane:
    """Fine grain, and mottle of about a lesion's size: what makes the faint ones hard to tell."""
    grain: Plane = rng.normal(0, 3.5, (size, size)).astype(np.float32)
    for cells in (12, 22):
        coarse = Image.fromarray(rng.normal(0, _MOTTLE, (cells, cells)).astype(np.float32))
        grain = grain + np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC))
    return grain


def _draw(picture: Image.Image, film: Film, rng: np.random.Generator) -> None:
    """Metal and lead letters are brighter than any organ, and sharp."""
    draw, size = ImageDraw.Draw(picture), picture.width
    width = max(1, round(0.02 * size))

    def stroke(*points: tuple[float, float], thick: int = width) -> None:
        draw.line([(x * size, y * size) for x, y in points], fill=248, width=thick, joint="curve")

    shift = float(rng.uniform(-0.015, 0.015))
    # Each marker stands on its own side: L on the patient's left, the picture's right.
    x, y = (0.885 if film.marker == "L" else 0.055) + shift, 0.06 + shift
    if film.marker == "L":
        stroke((x, y), (x, y + 0.11), (x + 0.06, y + 0.11))
    else:
        stroke((x, y + 0.11), (x, y), (x + 0.055, y + 0.012), (x + 0.055, y + 0.05), (x, y + 0.058))
        stroke((x + 0.02, y + 0.058), (x + 0.062, y + 0.11))
    if film.device == "pacemaker":
        left, top = (0.74 + shift) * size, (0.2 + shift) * size
        draw.rectangle((left, top, left + 0.1 * size, top + 0.075 * size), fill=244)
        stroke((0.74 + shift, 0.26), (0.62, 0.36), (0.58, 0.6), thick=max(1, width // 2))
    elif film.device == "tube":
        x = 0.495 + shift
        stroke((x, 0.0), (x, 0.3), (x + 0.012, 0.52), thick=max(1, width // 2 + 1))
    elif film.device == "clip":
        x, y = 0.42 + shift, 0.86 + shift
        stroke((x, y), (x + 0.05, y + 0.06))
        stroke((x + 0.05, y), (x, y + 0.06))
