"""Which files of a folder are meant, and which reader reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.readers import Reader, find_reader, readers
from heldout.benchmark.readers.arrow import split_folders
from heldout.benchmark.readers.image_folder import split_images
from heldout.benchmark.source import Source, split_of
from heldout.errors import InputError

_PART = re.compile(r"[-_]?\d{3,}([-_]of[-_]\d+)?$")


@dataclass(frozen=True)
class DataFile:
    path: Path
    reader: Reader
    split: str | None


def locate(
    source: Source, reader_name: str | None = None, *, several: bool = False
) -> list[DataFile]:
    """The data files of a source in order; an InputError that lists the choices if it is unclear.

    ``several``: the benchmark is released as many tables, and all of them are meant.
    """
    path = source.path
    if not path.exists():
        raise InputError(f"{path} does not exist (and is not the name of a preset)")
    if path.is_file() or (reader_name is None and find_reader(path)) or reader_name:
        reader = find_reader(path, reader_name)
        if reader is None:
            known = ", ".join(sorted(r.name for r in readers()))
            raise InputError(f"{path}: no reader recognises this file. Readers: {known}")
        return [DataFile(path, reader, split_of(path.stem))]
    if folders := split_folders(path) or split_images(path):
        return [_split_folder(source, folders)]
    files = _data_files(path)
    if not files:
        raise InputError(f"{path}: no data file was found in this folder or in its data/ folder")
    return _choose(files, source, several)


def _split_folder(source: Source, folders: dict[str, Path]) -> DataFile:
    """The one folder of a split: of a saved DatasetDict, or of images sorted into train and val."""
    wanted = source.split
    chosen = {
        name: folder
        for name, folder in folders.items()
        if wanted is None or wanted == (split_of(name) or name)
    }
    listed = ", ".join(folders)
    if not chosen:
        raise InputError(f"{source.location} has no split '{wanted}'. It has: {listed}")
    if len(chosen) > 1:
        raise InputError(
            f"{source.location} holds several splits: {listed}. Choose with '#split=…'"
        )
    name, folder = next(iter(chosen.items()))
    reader = find_reader(folder)
    if reader is None:
        raise InputError(f"{folder}: no reader recognises the folder of split '{name}'")
    return DataFile(folder, reader, split_of(name) or name)


def _data_files(folder: Path) -> list[DataFile]:
    """Recognised files in ``folder`` and in ``folder/data`` and other one-level folders."""
    found: list[DataFile] = []
    folders = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]
    for place in folders:
        for path in sorted(place.iterdir()):
            if path.is_file() and not path.name.startswith(".") and (reader := find_reader(path)):
                # A split named by the folder (test/0001.parquet) counts as much as by the file.
                split = split_of(path.stem) or (split_of(place.name) if place != folder else None)
                found.append(DataFile(path, reader, split))
        if found and place == folder:
            break
    return found


def _choose(files: list[DataFile], source: Source, several: bool) -> list[DataFile]:
    wanted = source.split
    chosen = files if wanted is None else [file for file in files if file.split == wanted]
    if not chosen and len({_stem(file) for file in files}) == 1:
        return files  # one table: its rows may carry the split
    groups = {(str(file.path.parent), _stem(file)) for file in chosen}
    if several:
        return chosen or files
    if len(groups) == 1:
        return chosen
    listed = ", ".join(
        f"{file.path.relative_to(source.path)} (split {file.split or 'unknown'})"
        for file in files[:12]
    )
    if not chosen:
        raise InputError(f"{source.location} has no split '{wanted}'. It has: {listed}")
    raise InputError(
        f"{source.location} holds several tables: {listed}. Choose with '#split=…' or name the file"
    )


def _stem(file: DataFile) -> str:
    """'test-00001-of-00004' → 'test': parts of one table share a stem."""
    return _PART.sub("", file.path.stem)
