"""An image that cannot be used, and the limits beyond which none is."""

from __future__ import annotations

from heldout.errors import HeldoutError, blame_the_machine
from heldout.store import FAILED, OUT_OF_MEMORY

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


def image_error(error: Exception) -> ImageError:
    """Why one picture is left out, whatever went wrong with it.

    What is no picture's fault is raised again: a full disk, a missing package, a wrong setting.
    """
    if isinstance(error, ImageError):
        return error
    if isinstance(error, HeldoutError):
        raise error
    blame_the_machine(error)
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return ImageError(OUT_OF_MEMORY, text or "it needs more memory than there is")
    return ImageError(FAILED, f"{type(error).__name__}: {text}")
