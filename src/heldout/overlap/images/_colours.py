"""Colours of a copy: registration compares greys, and red can be as grey as green."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from heldout.image import to_rgb
from heldout.overlap.images._fills import has_other_fill
from heldout.overlap.images._hues import SIDE, laid
from heldout.overlap.images._registration import Registration
from heldout.overlap.images._transform_words import WATERMARKED

BLOCKS = 32  # a side: 8 × 8 pixels each
LOCAL = 24.0  # chroma levels by which a block stands out; at 20, JPEG of thin coloured lines does
FEWEST = 2  # such blocks; one may be an edge that was laid half a pixel off
OTHER_INK = 24.0  # chroma levels between two inks, where both pictures are coloured
INK = 20.0  # chroma levels of a pixel that is coloured
INKED = 0.02  # share of the frame that is coloured in both
GREY = 10.0  # chroma levels that nine tenths of a grey picture stay below
TINT = 8.0  # chroma levels that brightness may leave unexplained in shades of one tint
TINTED = 6.0  # chroma levels that a picture differs by which was tinted as a whole
MARKED = 12.0  # levels of light by which a block under a mark stands out somewhere
CHANGED_COLOURS = 6.5  # chroma levels of the block in the middle; JPEG and noise stay below
COLOURS_CHANGED = "colours changed"

Pixels = NDArray[np.float32]


def is_recoloured_in_part(
    query: Image.Image, candidate: Image.Image, registration: Registration
) -> bool:
    """True if the colours agree as a whole but differ in some place, or one ink or fill stands for another.

    A picture that was turned grey or tinted as a whole is not meant, nor is a negative, whose every colour is
    the opposite one.
    """
    small, shown, inside = _laid(query, candidate, registration)
    ours, theirs = _chroma(small), _chroma(shown)
    whole = inside.reshape(BLOCKS, SIDE // BLOCKS, BLOCKS, SIDE // BLOCKS).all(axis=(1, 3))
    if whole.sum() < BLOCKS:
        return False
    flat = [_is_monochrome(small), _is_monochrome(shown)]
    if (flat[0] and _is_grey(ours)) or (flat[1] and _is_grey(theirs)):
        return False
    if flat[0] == flat[1] and _inks_apart(ours, theirs, inside) > OTHER_INK:
        return True
    marked = WATERMARKED in registration.transform
    other = ImageOps.invert(to_rgb(candidate)) if registration.inverted else candidate
    if has_other_fill(query, other, registration.warp, marked=marked):
        return True
    blocks = _blocks(np.abs(ours - theirs).max(axis=2))
    usual = float(np.median(blocks[whole]))
    if all(flat) or (any(flat) and usual >= TINTED) or usual >= OTHER_INK:
        return False
    if marked:
        # A mark changes light and colour, and registration has judged it by its light.
        light = np.abs(_light(small) - _light(shown))
        step = SIDE // BLOCKS
        light = light.reshape(BLOCKS, step, BLOCKS, step).max(axis=(1, 3))
        whole &= light <= float(np.median(light[whole])) + MARKED
    return int((blocks[whole] > usual + LOCAL).sum()) >= FEWEST


def has_other_colours(
    query: Image.Image, candidate: Image.Image, registration: Registration
) -> bool:
    """True if half of the frame differs in colour: sepia, more or less saturated, hues turned a little."""
    small, shown, inside = _laid(query, candidate, registration)
    blocks = _blocks(np.abs(_chroma(small) - _chroma(shown)).max(axis=2))
    whole = inside.reshape(BLOCKS, SIDE // BLOCKS, BLOCKS, SIDE // BLOCKS).all(axis=(1, 3))
    return bool(whole.any()) and float(np.median(blocks[whole])) > CHANGED_COLOURS


def _laid(
    query: Image.Image, candidate: Image.Image, registration: Registration
) -> tuple[Image.Image, Image.Image, NDArray[np.bool_]]:
    theirs = ImageOps.invert(to_rgb(candidate)) if registration.inverted else candidate
    return laid(query, theirs, registration.warp)


def _inks_apart(ours: Pixels, theirs: Pixels, inside: NDArray[np.bool_]) -> float:
    """Chroma levels between the two where both are coloured; 0 where hardly anything is."""
    inked = inside & (np.minimum(_strength(ours), _strength(theirs)) > INK)
    if float(inked.mean()) < INKED:
        return 0.0
    return float(np.median(np.abs(ours - theirs).max(axis=2)[inked]))


def _is_monochrome(image: Image.Image) -> bool:
    """True if brightness explains the colours: grey, or shades of one tint."""
    pixels = np.asarray(image.convert("YCbCr"), dtype=np.float64).reshape(-1, 3)
    basis = np.stack([np.ones(len(pixels)), pixels[:, 0]], axis=1)
    rest = pixels[:, 1:] - basis @ np.linalg.lstsq(basis, pixels[:, 1:], rcond=None)[0]
    return bool(np.quantile(np.abs(rest), 0.999) < TINT)


def _is_grey(colours: Pixels) -> bool:
    return float(np.percentile(_strength(colours), 90)) < GREY


def _strength(colours: Pixels) -> Pixels:
    return np.asarray(np.hypot(colours[..., 0], colours[..., 1]))


def _blocks(values: Pixels) -> Pixels:
    step = SIDE // BLOCKS
    return np.asarray(values.reshape(BLOCKS, step, BLOCKS, step).mean(axis=(1, 3)))


def _chroma(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("YCbCr"), dtype=np.float32)[..., 1:] - 128.0


def _light(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("L"), dtype=np.float32)
