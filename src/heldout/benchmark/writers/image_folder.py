"""Folders of images: chosen files at the same place below, with the caption beside them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.base import FileRow
from heldout.benchmark.readers.image_folder import ImageFolderReader
from heldout.benchmark.writers.base import FilePart, copy_picture
from heldout.image import FileOnDisk, ImageRef


class ImageFolderWriter:
    name = "image-folder"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for part in parts:
            for row in ImageFolderReader().rows(part.path):
                if isinstance(row, FileRow) and row.number in part.rows:
                    image = row.values["image"]
                    file = _file(image, part.path)
                    if file is not None:
                        place = target / file.relative_to(part.path)
                        copy_picture(file, place)
                        caption = file.with_suffix(".txt")
                        if caption.is_file() and not caption.is_symlink():
                            shutil.copyfile(caption, place.with_suffix(".txt"))


def _file(image: ImageRef | str, root: Path) -> Path | None:
    """The file of a row; a link is followed only where it stays inside the folder."""
    if isinstance(image, ImageRef):
        return Path(image.location.path) if isinstance(image.location, FileOnDisk) else None
    link = root / image
    inside = link.is_file() and link.resolve().is_relative_to(root.resolve())
    return link if inside else None
