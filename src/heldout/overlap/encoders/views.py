"""Views of one query picture: what a copy of it may look like after a flip, a turn, a crop, inversion.

Queries are few and corpora are huge, so robustness is bought here, on the query's side.
"""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image, ImageOps

from heldout.image import to_rgb

_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
# Pose k is the picture, mirrored left to right from 4 on, then turned k % 4 quarters to the left.
POSES = (
    "as is",
    "rotated 90°",
    "rotated 180°",
    "rotated 270°",
    "flipped horizontally",
    "flipped horizontally, rotated 90°",
    "flipped vertically",
    "flipped horizontally, rotated 270°",
)
HALF = 0.7071  # of each side: half of the area
CORNERS = {
    "centre": (0.5, 0.5),
    "top left": (0.0, 0.0),
    "top right": (1.0, 0.0),
    "bottom left": (0.0, 1.0),
    "bottom right": (1.0, 1.0),
}
# (share of each side, places along it): a crop anywhere is at most a twentieth of a side from one.
GRIDS = ((HALF, 5), (0.85, 3))
MARGINS = (0.95, 0.9, 0.85, 0.78, 0.62)  # of each side, around the middle
DIAGONALS = (45, 135, 225, 315)


def in_pose(image: Image.Image, pose: int) -> Image.Image:
    turned = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if pose >= 4 else image
    turn = _TURNS[pose % 4]
    return turned if turn is None else turned.transpose(turn)


def views(image: Image.Image, *, thorough: bool = False) -> list[tuple[str, Image.Image]]:
    """(name, picture): eight poses, the middle and the four corners, the negative.

    ``thorough`` adds grids of crops, trims and diagonal turns: 51 in all, for encoders as cheap as
    ``pixels``.
    """
    picture = to_rgb(image)
    found = [(name, in_pose(picture, pose)) for pose, name in enumerate(POSES)]
    found += [(f"{name} crop", _crop(picture, HALF, place)) for name, place in CORNERS.items()]
    found.append(("inverted", ImageOps.invert(picture)))
    if thorough:
        found += _more(picture)
    return found


def _more(picture: Image.Image) -> Iterator[tuple[str, Image.Image]]:
    taken = set(CORNERS.values())
    for share, count in GRIDS:
        steps = [step / (count - 1) for step in range(count)]
        for place in ((across, down) for down in steps for across in steps):
            if share == HALF and place in taken:
                continue
            if share == HALF or place != CORNERS["centre"]:
                yield (
                    f"crop {share:.0%} at {place[0]:.2f},{place[1]:.2f}",
                    _crop(picture, share, place),
                )
    for margin in MARGINS:
        yield f"trimmed to {margin:.0%}", _crop(picture, margin, CORNERS["centre"])
    for degrees in DIAGONALS:
        yield f"rotated {degrees}°", picture.rotate(degrees, Image.Resampling.BILINEAR)


def _crop(picture: Image.Image, share: float, place: tuple[float, float]) -> Image.Image:
    """``share`` of each side; ``place`` is where the rest falls: (0, 0) keeps the top left."""
    width, height = (max(1, round(side * share)) for side in picture.size)
    left = round((picture.width - width) * place[0])
    top = round((picture.height - height) * place[1])
    return picture.crop((left, top, left + width, top + height))
