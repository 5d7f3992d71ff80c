"""Pictures whose hues were all turned by one angle: registration compares greys, which such a turn changes.

A picture with one thing in another colour is another picture. Of a turned one every hue has moved by
the same angle, and there are several of them.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images._registration import Rows

SIDE = 256
CIRCLE = 256  # steps of Pillow's hue
SATURATED, LIT = 60, 48  # of 255: below, a hue means nothing
COLOURED = 0.01  # share of the picture that has hues at least
AGREE = 0.92  # share of it that has turned by the angle
WITHIN = 8  # steps: compression and rounding
LEAST = 12  # steps of a turn that is one
HUES, HUE_SHARE = 3, 0.05  # so many different ones, each with this share, have to agree
SECTORS = 12


def turned_hue(query: Image.Image, candidate: Image.Image, warp: Rows) -> int | None:
    """By how many of ``CIRCLE`` steps all hues of the candidate are turned; None if they are not."""
    ours, theirs, inside = laid(query, candidate, warp)
    hue, saturation, light = (np.asarray(band, np.int16) for band in ours.convert("HSV").split())
    other, other_saturation, other_light = (
        np.asarray(band, np.int16) for band in theirs.convert("HSV").split()
    )
    seen = inside & (np.minimum(saturation, other_saturation) >= SATURATED)
    seen &= np.minimum(light, other_light) >= LIT
    if seen.sum() < COLOURED * seen.size:
        return None
    moved = (other - hue)[seen] % CIRCLE
    counts = np.bincount(moved, minlength=CIRCLE)
    around = np.concatenate([counts[-WITHIN:], counts, counts[:WITHIN]])
    near = np.convolve(around, np.ones(2 * WITHIN + 1), "valid")
    first = int(near.argmax())  # any within reach of the angle has as many
    off = (moved - first + CIRCLE // 2) % CIRCLE - CIRCLE // 2
    angle = (first + round(float(np.median(off[np.abs(off) <= WITHIN])))) % CIRCLE
    if near[first] < AGREE * len(moved) or min(angle, CIRCLE - angle) < LEAST:
        return None
    sectors = np.bincount(hue[seen] * SECTORS // CIRCLE, minlength=SECTORS)
    return angle if int((sectors >= HUE_SHARE * len(moved)).sum()) >= HUES else None


def turned_back(picture: Image.Image, angle: int) -> Image.Image:
    hue, saturation, light = to_rgb(picture).convert("HSV").split()
    hue = hue.point([(step - angle) % CIRCLE for step in range(CIRCLE)])
    return Image.merge("HSV", (hue, saturation, light)).convert("RGB")


def in_words(angle: int) -> str:
    return f"hues turned by {round(360 * angle / CIRCLE)}°"


def laid(
    query: Image.Image, candidate: Image.Image, warp: Rows
) -> tuple[Image.Image, Image.Image, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Both in the query's frame, ``SIDE`` pixels a side, and where the candidate is."""
    ours, theirs = to_rgb(query), to_rgb(candidate)
    across, down = ours.width / SIDE, ours.height / SIDE
    matrix = np.array(warp) @ np.diag([across, down, 1.0])
    values = tuple(float(value) for value in (matrix / matrix[2, 2]).ravel()[:8])
    shown = theirs.transform(
        (SIDE, SIDE),
        Image.Transform.PERSPECTIVE,
        values,
        resample=Image.Resampling.BILINEAR,
        fillcolor=(0, 0, 0),
    )
    whole = Image.new("L", theirs.size, 255)
    inside = whole.transform((SIDE, SIDE), Image.Transform.PERSPECTIVE, values, fillcolor=0)
    return ours.resize((SIDE, SIDE), Image.Resampling.BILINEAR), shown, np.asarray(inside) > 0
