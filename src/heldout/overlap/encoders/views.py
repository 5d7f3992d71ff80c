"""Views of one query picture: what a copy of it may look like after a flip, a turn, a crop, inversion.

Queries are few and corpora are huge, so robustness is bought here, on the query's side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class View:
    """One way to look at a picture: a crop of it, turned, in the negative."""

    name: str
    pose: int = 0
    share: float = 1.0  # of each side
    place: tuple[float, float] = (0.5, 0.5)  # where the rest falls: (0, 0) keeps the top left
    degrees: int = 0
    inverted: bool = False

    def of(self, picture: Image.Image) -> Image.Image:
        seen = picture if self.share == 1 else picture.crop(self.box(picture.size))
        if self.inverted:
            seen = ImageOps.invert(seen)
        if self.degrees:
            seen = seen.rotate(self.degrees, Image.Resampling.BILINEAR)
        return in_pose(seen, self.pose)

    def box(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        width, height = (max(1, round(side * self.share)) for side in size)
        left = round((size[0] - width) * self.place[0])
        top = round((size[1] - height) * self.place[1])
        return left, top, left + width, top + height


def _more() -> Iterator[View]:
    taken = set(CORNERS.values())
    for share, count in GRIDS:
        steps = [step / (count - 1) for step in range(count)]
        for place in ((across, down) for down in steps for across in steps):
            if share == HALF and place in taken:
                continue
            if share == HALF or place != CORNERS["centre"]:
                name = f"crop {share:.0%} at {place[0]:.2f},{place[1]:.2f}"
                yield View(name, share=share, place=place)
    for margin in MARGINS:
        yield View(f"trimmed to {margin:.0%}", share=margin)
    for degrees in DIAGONALS:
        yield View(f"rotated {degrees}°", degrees=degrees)


FEW = (
    *(View(name, pose=pose) for pose, name in enumerate(POSES)),
    *(View(f"{name} crop", share=HALF, place=place) for name, place in CORNERS.items()),
    View("inverted", inverted=True),
)
MANY = (*FEW, *_more())


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
    return [(view.name, view.of(picture)) for view in (MANY if thorough else FEW)]
