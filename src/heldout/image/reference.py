"""ImageRef: a picture that is read only when somebody looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from heldout.image.decode import decode
from heldout.image.location import Location


@dataclass(frozen=True, slots=True)
class ImageRef:
    """``name`` is what the dataset calls the picture; ``location`` is where its bytes really are."""

    name: str
    location: Location

    def read(self) -> bytes:
        """The original bytes, never re-encoded."""
        return self.location.read()

    def open(self) -> Image.Image:
        """Native pixels."""
        return decode(self.read())

    @property
    def source(self) -> str:
        """Where a person finds it: a path, ``archive.tar!member``, ``file.tsv row 12``."""
        return self.location.describe()
