"""An image that cannot be used, and the limits beyond which none is."""

from __future__ import annotations

from heldout.errors import HeldoutError

# Pillow's own "this is an attack" limit (twice its warning limit), made ours so that it is stable.
MAX_PIXELS = 178_956_970
MAX_BYTES = 512 * 1024 * 1024


class ImageError(HeldoutError):
    """An image that cannot be used: ``reason`` in few stable words, ``detail`` the facts."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return ImageError, (self.reason, self.detail)  # survives the trip between processes
