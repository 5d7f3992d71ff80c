"""Was one part recoloured? Registration compares greys, and red can be as grey as green."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps

from heldout.image import to_rgb
from heldout.overlap.registration import Registration

_SIDE = 256
_BLOCKS = 32  # a side: 8 × 8 pixels each
_LOCAL = 24.0  # chroma levels by which a block stands out; JPEG and resizing stay below 10
_TINT = 8.0  # chroma levels that brightness may leave unexplained
_FEWEST = 2  # such blocks; one may be an edge that was laid half a pixel off


def recoloured_in_part(query: Image.Image, candidate: Image.Image, found: Registration) -> bool:
    """True if the colours agree as a whole but differ in some place.

    A picture that was turned grey or tinted as a whole differs everywhere alike and is not meant, nor is
    a negative, whose every colour is the opposite one.
    """
    ours, theirs = to_rgb(query), to_rgb(candidate)
    if found.inverted:
        theirs = ImageOps.invert(theirs)
    across, down = ours.width / _SIDE, ours.height / _SIDE
    warp = np.array(found.warp) @ np.diag([across, down, 1.0])
    warp = warp / warp[2, 2]
    laid = theirs.transform(
        (_SIDE, _SIDE),
        Image.Transform.PERSPECTIVE,
        tuple(float(one) for one in warp.ravel()[:8]),
        resample=Image.Resampling.BILINEAR,
        fillcolor=(0, 0, 0),
    )
    inside = np.asarray(
        Image.new("L", theirs.size, 255).transform(
            (_SIDE, _SIDE),
            Image.Transform.PERSPECTIVE,
            tuple(float(one) for one in warp.ravel()[:8]),
            fillcolor=0,
        )
    )
    small = ours.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    if _is_monochrome(small) or _is_monochrome(laid):
        return False  # turned grey or tinted as a whole
    difference = np.abs(_chroma(small) - _chroma(laid)).max(axis=2)
    step = _SIDE // _BLOCKS
    blocks = difference.reshape(_BLOCKS, step, _BLOCKS, step).mean(axis=(1, 3))
    whole = (inside.reshape(_BLOCKS, step, _BLOCKS, step) > 0).all(axis=(1, 3))
    if whole.sum() < _BLOCKS:
        return False
    usual = float(np.median(blocks[whole]))
    return int((blocks[whole] > usual + _LOCAL).sum()) >= _FEWEST and usual < _LOCAL


def _is_monochrome(image: Image.Image) -> bool:
    """True if brightness explains the colours: grey, or shades of one tint."""
    pixels = np.asarray(image.convert("YCbCr"), dtype=np.float64).reshape(-1, 3)
    basis = np.stack([np.ones(len(pixels)), pixels[:, 0]], axis=1)
    rest = pixels[:, 1:] - basis @ np.linalg.lstsq(basis, pixels[:, 1:], rcond=None)[0]
    return bool(np.quantile(np.abs(rest), 0.999) < _TINT)


def _chroma(image: Image.Image) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.asarray(image.convert("YCbCr"), dtype=np.float32)[..., 1:]
