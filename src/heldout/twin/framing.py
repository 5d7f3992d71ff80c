"""Fit a picture into one of the sizes an endpoint draws, and cut its answer back to the original's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from heldout.errors import InputError
from heldout.twin.renderer import RenderError

Size = tuple[int, int]
_SHAPE = 0.02  # by how much the answer's width over height may differ from what was sent


@dataclass(frozen=True)
class Framed:
    """``picture`` is what is sent; ``box`` is where the original lies in it."""

    picture: Image.Image
    box: tuple[int, int, int, int]
    size: Size  # of the original

    def unframe(self, answer: Image.Image) -> Image.Image:
        """The original's part of the answer, at the original's size."""
        sent = self.picture
        if abs(answer.width * sent.height / (answer.height * sent.width) - 1) > _SHAPE:
            raise RenderError(
                "a picture of another shape",
                f"{answer.width} x {answer.height} for {sent.width} x {sent.height}",
            )
        across, down = answer.width / sent.width, answer.height / sent.height
        left, top, right, bottom = self.box
        box = (left * across, top * down, right * across, bottom * down)
        if answer.size == self.size == sent.size:
            return answer
        return answer.resize(self.size, Image.Resampling.LANCZOS, box=box)


def frame(picture: Image.Image, sizes: Sequence[Size]) -> Framed:
    """In the size whose shape wastes least, the rest white; as it is, where there are no sizes."""
    if not sizes:
        return Framed(picture, (0, 0, *picture.size), picture.size)

    def scale(size: Size) -> float:
        return min(size[0] / picture.width, size[1] / picture.height)

    def used(size: Size) -> float:
        return scale(size) ** 2 * picture.width * picture.height / (size[0] * size[1])

    chosen = max(sizes, key=used)
    if chosen == picture.size:
        return Framed(picture, (0, 0, *picture.size), picture.size)
    factor = scale(chosen)
    width, height = (max(1, round(side * factor)) for side in picture.size)
    left, top = (chosen[0] - width) // 2, (chosen[1] - height) // 2
    canvas = Image.new("RGB", chosen, "white")
    canvas.paste(picture.resize((width, height), Image.Resampling.LANCZOS), (left, top))
    return Framed(canvas, (left, top, left + width, top + height), picture.size)


def parse_sizes(text: str) -> tuple[Size, ...]:
    """'1024x1024,1536x1024' as sizes; '' is none."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\d{2,5})x(\d{2,5})", part)
        if match is None:
            raise InputError(f"size '{part}': expected WIDTHxHEIGHT, for example 1024x1024")
        found.append((int(match[1]), int(match[2])))
    return tuple(found)
