"""From any decoded picture to the array a vision model reads; Pillow and NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import InputError
from heldout.image import to_rgb

STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
RESIZING = ("squash", "crop")  # both sides to size; or the shorter one, then the middle square
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    size: int = 224
    resize: str = "squash"
    filter: str = "bilinear"
    statistics: str = "imagenet"

    def __str__(self) -> str:
        return f"{self.resize} {self.size} {self.filter} {self.statistics}"

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """(3, size, size), normalised."""
        picture = to_rgb(image)
        target = (self.size, self.size)
        box = None
        if self.resize == "crop":
            side = min(picture.size)
            left, top = (picture.width - side) / 2, (picture.height - side) / 2
            box = (left, top, left + side, top + side)
        small = picture.resize(target, FILTERS[self.filter], box=box, reducing_gap=3.0)
        mean, deviation = (np.array(part, np.float32) for part in STATISTICS[self.statistics])
        pixels = (np.asarray(small, dtype=np.float32) / np.float32(255) - mean) / deviation
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def with_options(base: Preprocessing, options: Mapping[str, str], spec: str) -> Preprocessing:
    """``base`` changed by the user's ``size=288,resize=crop,…``."""
    allowed = {"resize": RESIZING, "filter": FILTERS, "statistics": STATISTICS}
    changed = base
    for key, value in options.items():
        if key == "size":
            if not value.isdigit() or not 8 <= int(value) <= 4096:
                raise InputError(f"--encoder {spec}: size={value}; expected pixels, 8 to 4096")
            changed = replace(changed, size=int(value))
        elif key in allowed:
            if value not in allowed[key]:
                raise InputError(
                    f"--encoder {spec}: {key}={value}; expected one of {', '.join(allowed[key])}"
                )
            fields = {
                "resize": changed.resize,
                "filter": changed.filter,
                "statistics": changed.statistics,
            }
            changed = Preprocessing(changed.size, **{**fields, key: value})
        else:
            raise InputError(
                f"--encoder {spec}: unknown option '{key}'; expected size, resize, filter, statistics"
            )
    return changed
