"""Which files of a folder are meant, and which reader reads them."""

from __future__ import annotations

import difflib
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.readers import Reader, find_reader, readers
from heldout.benchmark.readers.image_folder import split_images
from heldout.benchmark.readers.parquet import split_folders
from heldout.benchmark.source import ALIASES, BenchmarkSource, split_of
from heldout.errors import InputError, blame_the_machine
from heldout.remote import entries, known_schemes

_KERNEL = (Path("/proc"), Path("/sys"))  # special files, whose reading may never end
_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_PART = re.compile(r"[-_]?\d{3,}([-_]of[-_]\d+)?$")
_CARD, _PUBLISHED = "README.md", "data"  # of a dataset in the layout of the Hugging Face hub
_TABLES = (".parquet", ".pq")


@dataclass(frozen=True)
class DataFile:
    path: Path
    reader: Reader
    split: str | None


def locate(
    source: BenchmarkSource, reader_name: str | None = None, *, several: bool = False
) -> list[DataFile]:
    """The data files of a source in order; an InputError that lists the choices if it is unclear.

    ``several``: the benchmark is released as many tables, and all of them are meant.
    """
    path = source.path
    try:
        if not path.exists():
            hint = known_schemes(source.location)
            named = source.location if hint else path
            raise InputError(f"{named} does not exist (and is not the name of a preset){hint}")
        refuse_special(path)
        return _located(source, reader_name, several)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputError:
    """The sentence for a file or a folder that the system does not let us read."""
    blame_the_machine(error)
    named = str(error.filename or "")
    at = f" (at {named})" if named and named != str(path) else ""
    return InputError(f"{path}: cannot be read: {error.strerror or error}{at}")


def refuse_special(path: Path) -> None:
    """An InputError for what is neither a file nor a folder: reading it may never end."""
    try:
        mode = path.stat().st_mode
        resolved = path.resolve()
    except OSError as error:
        raise unreadable(path, error) from error
    kind = next((name for is_kind, name in _SPECIAL if is_kind(mode)), None)
    if any(resolved.is_relative_to(folder) for folder in _KERNEL):
        kind = "a file of the system's kernel"
    if kind is not None:
        raise InputError(
            f"{path} is {kind}; expected a file or a folder: write the data to a file first"
        )


def _located(source: BenchmarkSource, reader_name: str | None, several: bool) -> list[DataFile]:
    path = source.path
    if len(source.splits) > 1:
        return _several_splits(source, reader_name, several)
    if reader_name is not None:
        return _named_reader(source, reader_name, several)
    if tables := _published(path):
        return _choose(tables, source, several)
    if reader := find_reader(path):
        return [DataFile(path, reader, split_of(path.stem))]
    if path.is_file():
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty: a file of no bytes holds no item")
        known = ", ".join(sorted(r.name for r in readers()))
        raise InputError(f"{path}: no reader recognises this file. Readers: {known}")
    if folders := split_folders(path) or split_images(path):
        return [_split_folder(source, folders)]
    files = _data_files(path)
    if not files:
        raise InputError(f"{path}: no data file was found in this folder or in its data/ folder")
    return _choose(files, source, several)


def _several_splits(
    source: BenchmarkSource, reader_name: str | None, several: bool
) -> list[DataFile]:
    """``split=validation+dev``: folder by folder, in the order the splits are named."""
    data_files: dict[Path, tuple[str, int, DataFile]] = {}
    for place, part in enumerate(source.selection["split"].split("+")):
        part_source = BenchmarkSource(source.location, {**source.selection, "split": part.strip()})
        for file in _located(part_source, reader_name, several):
            data_files.setdefault(file.path, (str(file.path.parent), place, file))
    return [file for _, _, file in sorted(data_files.values(), key=lambda entry: entry[:2])]


def _named_reader(source: BenchmarkSource, name: str, several: bool) -> list[DataFile]:
    """What the reader the user named can read of a source."""
    path = source.path
    reader = find_reader(path, name)
    assert reader is not None  # an unknown name was refused
    reads_folders, reads_files = "" in reader.suffixes, set(reader.suffixes) != {""}
    if reads_folders if path.is_dir() else reads_files:
        return [DataFile(path, reader, split_of(path.stem))]
    if path.is_file():
        raise InputError(
            f"{path} is a file, but the reader '{name}' reads folders: name its folder"
        )
    files = _data_files(path, reader)
    if not files:
        endings = ", ".join(sorted(reader.suffixes))
        raise InputError(f"{path}: the reader '{name}' finds no file of its own here ({endings})")
    return _choose(files, source, several)


def _split_folder(source: BenchmarkSource, folders: dict[str, Path]) -> DataFile:
    """The one folder of a split: of a saved DatasetDict, or of images sorted into train and val."""
    wanted = source.split
    by_split = {
        name: folder
        for name, folder in folders.items()
        if wanted is None or wanted == (split_of(name) or name)
    }
    listed = ", ".join(folders)
    if not by_split:
        raise InputError(f"{source.location} has no split '{wanted}'. It has: {listed}")
    if len(by_split) > 1:
        raise InputError(
            f"{source.location} holds several splits: {listed}. Choose with '#split=…'"
        )
    name, folder = next(iter(by_split.items()))
    reader = find_reader(folder)
    if reader is None:
        raise InputError(f"{folder}: no reader recognises the folder of split '{name}'")
    return DataFile(folder, reader, split_of(name) or name)


def _published(folder: Path) -> list[DataFile]:
    """The tables of a folder as the hub lays datasets out: a card, and Parquet files in data/. What lies
    beside them (images, statistics, the same rows for trainers) is not the dataset."""
    data = folder / _PUBLISHED
    if not (folder / _CARD).is_file() or not data.is_dir():
        return []
    if any(path.suffix.lower() in _TABLES for path in entries(folder)):
        return []
    return [file for file in _data_files(data) if file.path.suffix.lower() in _TABLES]


def _data_files(folder: Path, only: Reader | None = None) -> list[DataFile]:
    """Recognised files in ``folder`` and in ``folder/data`` and other one-level folders."""
    data_files: list[DataFile] = []
    folders = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]
    for place in folders:
        for path in sorted(place.iterdir()):
            if not path.is_file() or path.name.startswith("."):
                continue
            if only is None:
                reader = find_reader(path)
            else:
                reader = only if path.suffix.lower() in only.suffixes else None
            if reader is not None:
                # A split named by the folder (test/0001.parquet) counts as much as by the file.
                split = split_of(path.stem) or (split_of(place.name) if place != folder else None)
                data_files.append(DataFile(path, reader, split))
        if data_files and place == folder:
            break
    return data_files


def _choose(files: list[DataFile], source: BenchmarkSource, several: bool) -> list[DataFile]:
    wanted = source.split
    selected = files if wanted is None else [file for file in files if file.split == wanted]
    if (
        wanted == "val"
    ):  # "dev" is a name of this split where it has no other, and else another split
        is_dev = [_is_dev(file) for file in selected]
        if len(set(is_dev)) == 2:
            dev_wanted = source.selection.get("split", "").lower() == "dev"
            selected = [
                file for file, dev in zip(selected, is_dev, strict=True) if dev == dev_wanted
            ]
    if not selected and len({_stem(file) for file in files}) == 1:
        return files  # one table: its rows may carry the split
    groups = {(str(file.path.parent), _stem(file)) for file in selected}
    if several and (selected or len({file.split for file in files}) == 1):
        return selected or files
    if len(groups) == 1:
        return selected
    listed = ", ".join(
        f"{file.path.relative_to(source.path)} (split {file.split or 'unknown'})"
        for file in files[:12]
    )
    splits = {file.split for file in files}
    if not selected:
        raise InputError(f"{source.location} has no split '{wanted}'. It has: {listed}")
    raise InputError(
        f"{source.location} holds several tables: {listed}. {_unknown_keys(source)}"
        + ("Choose with '#split=…' or name the file" if splits != {None} else "Name the file")
    )


def _is_dev(file: DataFile) -> bool:
    words = re.split(r"[^a-z]+", file.path.stem.lower())
    folder = re.split(r"[^a-z]+", file.path.parent.name.lower())
    return "dev" in words or ("dev" in folder and split_of(file.path.stem) is None)


def _unknown_keys(source: BenchmarkSource) -> str:
    """A sentence about keys that choose no table, such as a mistyped 'split'."""
    unknown = [key for key in source.selection if key not in ALIASES]
    if not unknown:
        return ""
    near = difflib.get_close_matches(unknown[0], list(ALIASES), n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ", only rows."
    return f"'{unknown[0]}' chooses no table{hint} "


def _stem(file: DataFile) -> str:
    """'test-00001-of-00004' → 'test': parts of one table share a stem."""
    return _PART.sub("", file.path.stem)
