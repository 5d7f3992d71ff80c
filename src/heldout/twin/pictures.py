"""Pictures of a twin run on disk: as they were, their edges, and as they were drawn anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from heldout.image import ImageError, decode, to_rgb
from heldout.store import Run, replacing
from heldout.twin.ledger import folder


def place(run: Run, kind: str, name: str) -> Path:
    """``kind``: originals, edges or pictures."""
    return folder(run) / kind / f"{name}.png"


def relative(run: Run, path: Path) -> str:
    return path.relative_to(run.path).as_posix()


def save(path: Path, picture: Image.Image, *, quickly: bool = False) -> None:
    """From here on no kill can take it away. ``quickly``: larger files, for what is not published."""
    with replacing(path) as temporary:
        picture.save(temporary, "PNG", compress_level=1 if quickly else 6)


def load(path: Path) -> Image.Image | ImageError:
    """A picture saved before; somebody may have touched it since."""
    try:
        return to_rgb(decode(path.read_bytes()))
    except ImageError as error:
        return error
    except OSError as error:
        return ImageError("missing image", f"{path.name}: {error.strerror}")


def equal(image: Image.Image, other: Image.Image) -> bool:
    return image.size == other.size and bool(np.array_equal(np.asarray(image), np.asarray(other)))


def sweep(run: Run) -> None:
    """Remove what killed writers left half done. Only the writer of the run may call this."""
    for kind in ("originals", "edges", "pictures"):
        for left in (folder(run) / kind).glob(".*.tmp"):
            left.unlink(missing_ok=True)
