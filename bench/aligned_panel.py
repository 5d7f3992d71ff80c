"""A picture a person can judge a pair by: query, candidate laid onto it, and what differs."""

from __future__ import annotations

import numpy as np
from PIL import Image

from heldout.errors import require
from heldout.image import to_rgb
from heldout.overlap.images._registration import Registration

SIDE = 384
GAP = 6
LOUDER = 3.0  # differences are shown this many times as strong


def aligned_panel(
    query: Image.Image, candidate: Image.Image, registration: Registration
) -> Image.Image:
    """Query | candidate warped onto the query | difference, side by side."""
    require("cv2", "vision", "drawing two pictures on each other")
    import cv2

    ours, theirs = to_rgb(query), to_rgb(candidate)
    zoom = min(1.0, SIDE / max(ours.size))
    size = (max(1, round(ours.width * zoom)), max(1, round(ours.height * zoom)))
    across, down = ours.width / size[0], ours.height / size[1]
    shrink = np.array([[across, 0, across / 2 - 0.5], [0, down, down / 2 - 0.5], [0, 0, 1]])
    warp = np.array(registration.warp) @ shrink
    pixels = np.asarray(theirs)
    step = float(np.sqrt(abs(np.linalg.det(warp[:2, :2]))))
    if step > 1.2:
        pixels = cv2.GaussianBlur(pixels, (0, 0), 0.45 * float(np.sqrt(step**2 - 1)))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    laid = cv2.warpPerspective(pixels, warp, size, flags=flags)
    inside = (
        cv2.warpPerspective(np.ones(pixels.shape[:2], np.uint8), warp, size, flags=flags)[..., None]
        > 0
    )
    left = np.asarray(ours.resize(size, Image.Resampling.BOX))
    grey = _grey(255 - laid if registration.inverted else laid)
    difference = np.clip(np.abs(_grey(left) - grey) * LOUDER, 0, 255) * inside[..., 0]
    sheet = np.full((size[1], 3 * size[0] + 2 * GAP, 3), 255, np.uint8)
    for place, part in enumerate((left, laid, np.repeat(difference[..., None], 3, axis=2))):
        start = place * (size[0] + GAP)
        sheet[:, start : start + size[0]] = part
    return Image.fromarray(sheet)


def _grey(rgb: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(rgb.astype(np.uint8)).convert("L"), dtype=np.float32)
