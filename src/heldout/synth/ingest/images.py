"""Images of figures: whether one can be used, and a copy of its bytes in the run folder."""

from __future__ import annotations

import hashlib
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from heldout.image import ImageError, native_size
from heldout.store import write_atomic
from heldout.synth.draft import FigureImage


def look_at(data: bytes, location: str, shortest: int) -> FigureImage | str:
    """The image, or why it cannot be used, as ``reason: detail``."""
    try:
        width, height = native_size(data)
    except ImageError as error:
        return f"{error.reason}: {location}, {error.detail}"
    if min(width, height) < shortest:
        return f"image too small: {location}, {width} × {height}, shortest side at least {shortest}"
    return FigureImage(location, hashlib.sha256(data).hexdigest(), width, height)


def read_located(locations: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The bytes at these locations; every archive is read once, in its own order."""
    inside: dict[str, set[str]] = defaultdict(set)
    for location in dict.fromkeys(locations):
        archive, member = _split(location)
        if member:
            inside[archive].add(member)
        else:
            yield location, Path(location).read_bytes()
    for archive, wanted in inside.items():
        with tarfile.open(archive, "r|*") as package:
            for entry in package:
                if entry.name in wanted and entry.isfile():
                    file = package.extractfile(entry)
                    assert file is not None
                    yield f"{archive}!{entry.name}", file.read()


def _split(location: str) -> tuple[str, str]:
    """(archive, member) of ``ARCHIVE!MEMBER``; either of them may have a "!" in its own name."""
    at = location.find("!")
    while at >= 0 and not Path(location).is_file():
        if Path(location[:at]).is_file():
            return location[:at], location[at + 1 :]
        at = location.find("!", at + 1)
    return location, ""


def stored_name(image: FigureImage) -> str:
    """Where the run folder keeps this image: named by its content, so that equal images are one file."""
    ending = Path(image.location.rpartition("!")[2]).suffix.lower() or ".img"
    return f"synth/images/{image.sha256[:2]}/{image.sha256}{ending}"


def store(run: Path, image: FigureImage, data: bytes) -> bool:
    """Keep the bytes, if they are still those that were looked at: an archive may hold two members
    of one name, and a file may have changed since."""
    if hashlib.sha256(data).hexdigest() != image.sha256:
        return False
    target = run / stored_name(image)
    if not target.exists():
        write_atomic(target, data)
    return True
