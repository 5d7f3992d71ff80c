"""RemotePath: an address that readers use as they use a path; copies and matrices of remote files."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import hashlib
import io
import itertools
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from heldout.errors import MachineError, blame_the_machine
from heldout.remote._transfer import (
    BLOCK,
    RemoteFile,
    facts_of,
    fetch,
    fetch_whole,
    forget_bytes,
    persist,
    split,
)
from heldout.remote.access import SCHEMES, access, is_remote
from heldout.remote.stores import NO_RANGES, Child, Facts, RemoteError, open_store
from heldout.store import exclusive

_REMEMBERED = 20_000  # addresses whose facts are kept
_BUFFER = 1 << 16
LARGEST = 512 << 20  # bytes that read_bytes reads at once; a larger file is read by ranges

_LISTED = 50_000  # entries of a folder that is listed to spare single requests
_FOLDERS = 64  # such folders

# What a folder holds, where that was asked for; None where it holds too much or may not be listed.
_names: OrderedDict[str, frozenset[str] | None] = OrderedDict()
# Facts by address: None where there is neither a file nor a folder. Forgotten when a source is opened.
_FOLDER = Facts(-1, "folder")
_facts: OrderedDict[str, Facts | None] = OrderedDict()


def located(location: str | Path) -> Path:
    """Where a location is: a path of this machine, or an address as a RemotePath."""
    if isinstance(location, Path):
        return location
    return RemotePath(location) if is_remote(location) else Path(location)


def forget() -> None:
    """Ask the stores again: what was known about their files may be old."""
    _facts.clear()
    _names.clear()
    forget_bytes()


def remember(address: str, facts: Facts | None) -> None:
    _facts[address] = facts
    _facts.move_to_end(address)
    while len(_facts) > _REMEMBERED:
        _facts.popitem(last=False)


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """The part of ``os.stat_result`` that readers use."""

    st_mode: int
    st_size: int
    st_mtime_ns: int  # changes with the content; not a time


class RemotePath(PosixPath):
    """``s3://bucket/key`` and other addresses. Parts are those of the address: ``s3:``, ``bucket``, ``key``.

    Names with empty parts (``a//b``), ``.`` and ``..`` are legal in object stores and cannot be reached.
    """

    def __str__(self) -> str:
        scheme, *rest = self.parts or ("",)
        return f"{scheme}//{'/'.join(rest)}" if scheme.endswith(":") else "/".join(self.parts)

    def __fspath__(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str, ...]]:
        return RemotePath, tuple(self.parts)

    # What it is.

    def facts(self) -> Facts | None:
        """Of a file, _FOLDER of a folder, None of nothing."""
        address = self._address()
        if address is None:
            return None
        if address in _facts:
            return _facts[address]
        beside = _names.get(str(self.parent))
        if beside is not None and self.name not in beside:
            return None
        facts = facts_of(address)
        if facts is None and self._is_folder(address):
            facts = _FOLDER
        remember(address, facts)
        return facts

    def _address(self) -> str | None:
        """None for what is no address: a name that left it (``/etc``, ``..``)."""
        scheme = self.parts[0] if self.parts else ""
        if scheme[:-1].lower() not in SCHEMES or len(self.parts) < 2 or ".." in self.parts:
            return None
        return str(self)

    def _is_folder(self, address: str) -> bool:
        scheme, place = split(address)
        return persist(address, lambda: open_store(scheme).is_folder(place))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self.facts() is not None

    def is_file(self, **_: Any) -> bool:
        facts = self.facts()
        return facts is not None and facts is not _FOLDER

    def is_dir(self, **_: Any) -> bool:
        return self.facts() is _FOLDER

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        facts = self.facts()
        if facts is None:
            raise FileNotFoundError(2, "there is no such file", str(self))
        kind = stat.S_IFDIR if facts is _FOLDER else stat.S_IFREG
        return cast(os.stat_result, RemoteStat(kind, max(facts.size, 0), number_of(facts.mark)))

    def lstat(self) -> os.stat_result:
        return self.stat()

    # Where it is.

    def absolute(self) -> Self:
        return self

    def resolve(self, strict: bool = False) -> Self:
        return self

    def is_absolute(self) -> bool:
        return True

    # What is in it.

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) - set("rbt"):
            raise OSError(30, "remote files are only read", str(self))
        file: Any = self._opened(ahead=True)
        if "b" in mode:
            return file
        names = ("buffering", "encoding", "errors", "newline")
        options = {**dict(zip(names, args, strict=False)), **options}
        options.pop("buffering", None)
        return io.TextIOWrapper(file, **options)

    def open_ranges(self) -> Any:
        """Opened for reading here and there: nothing is read ahead."""
        return self._opened(ahead=False)

    def _opened(self, *, ahead: bool) -> Any:
        facts = self.facts()
        if facts is None:
            raise FileNotFoundError(2, "there is no such file", str(self))
        if facts is _FOLDER:
            raise IsADirectoryError(21, "it is a folder", str(self))
        if (copy := copy_of(str(self), facts)) is not None:
            return copy
        raw = RemoteFile(str(self), facts, ahead=ahead)
        return io.BufferedReader(raw, _BUFFER) if ahead else raw

    def read_bytes(self) -> bytes:
        address = self._address()
        if address is None:
            raise FileNotFoundError(2, "there is no such file", str(self))
        if is_on():
            with self.open("rb") as file:
                return bytes(file.read())
        data = fetch_whole(address, LARGEST)
        if len(data) > LARGEST:
            raise RemoteError("too large", f"more than {LARGEST:,} bytes", address)
        return data

    def iterdir(self) -> Iterator[Self]:  # type: ignore[override]
        for child in self.children():
            yield self / child.name

    def children(self) -> Iterator[Child]:
        """The entries of a folder as they come, whose facts are remembered."""
        address = self._address()
        if address is None:
            raise NotADirectoryError(20, "it is no folder", str(self))
        token = ""
        while True:
            page, token = persist(address, functools.partial(_children, address, token))
            for child in page:
                remember(f"{address}/{child.name}", child.facts or _FOLDER)
                yield child
            if not token:
                return

    def list_names(self) -> None:
        """Learn what is in this folder, so that nothing is asked about names that are not."""
        address = str(self)
        if address in _names:
            return
        names: frozenset[str] | None = None
        with contextlib.suppress(RemoteError, FileNotFoundError):
            entries = list(itertools.islice((child.name for child in self.children()), _LISTED + 1))
            names = frozenset(entries) if len(entries) <= _LISTED else None
        _names[address] = names
        while len(_names) > _FOLDERS:
            _names.popitem(last=False)

    def glob(self, pattern: str, **_: Any) -> Iterator[Self]:  # type: ignore[override]
        """Of one or several levels, without ``**``."""
        first, slash, rest = pattern.partition("/")
        if not self.is_dir():
            return
        names = (child.name for child in self.children())
        for name in sorted(name for name in names if fnmatch.fnmatchcase(name, first)):
            if slash:
                yield from (self / name).glob(rest)
            else:
                yield self / name


def _children(address: str, token: str) -> tuple[list[Child], str]:
    scheme, place = split(address)
    return open_store(scheme).children(place, token)


def ranges(path: str | Path) -> Any:
    """What Arrow reads a file from here and there: a path of this machine as it is, an address opened.

    An address is read by Python. Threads of Arrow that still hold such a file when the interpreter ends abort
    the process, so that its readers take ``pre_buffer=False`` and ``use_threads=False``.
    """
    place = located(path)
    return place.open_ranges() if isinstance(place, RemotePath) else place


def bare_name(path: Path) -> str:
    """A folder's name; of a dataset on the hub without its revision."""
    is_dataset = isinstance(path, RemotePath) and path.parts[0] == "hf:"
    return path.name.partition("@")[0] if is_dataset else path.name


def number_of(mark: str) -> int:
    """A mark as a number, where a time of modification is expected."""
    return int.from_bytes(hashlib.blake2b(mark.encode(), digest_size=7).digest(), "big")


# Whole copies of remote files in a folder of bounded size, shared by runs and by processes.
#
# A copy is called after its address and the mark of its content, so it is never out of date. It is written
# under another name and renamed; an unfinished one is continued. When the folder is full, the copies used
# longest ago go. A file that is open when it is removed stays readable.


_COPY, _PART = ".copy", ".part"
_WHOLE = 2 << 30  # of a server that sends no ranges, at once
_ABANDONED = 3600.0  # seconds without a new byte, after which an unfinished copy may go


class CopyFile(io.FileIO):
    """A copy opened for reading. Arrow's readers do not close the files they are given."""

    def _dealloc_warn(self, source: object) -> None:
        self.close()


def is_on() -> bool:
    return access().cache is not None


def copy_of(address: str, facts: Facts) -> Any:
    """The file, opened, from its copy, which is made now if there is none; None without a cache folder, and
    for a file that is larger than it."""
    chosen = access()
    if chosen.cache is None or facts.size > chosen.cache_bytes:
        return None
    folder = Path(chosen.cache)
    name = hashlib.sha256(f"{address}\0{facts.size}\0{facts.mark}".encode()).hexdigest()[:40]
    copy = folder / f"{name}{_COPY}"
    for _ in range(2):  # another process may remove it before it is opened
        if not copy.exists():
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:  # no fault of the file's
                raise MachineError(
                    f"the cache folder {folder} cannot be made: {error.strerror}"
                ) from error
            with exclusive(folder / f".{name[:3]}.lock"):
                if not copy.exists():
                    _make_room(folder, chosen.cache_bytes - facts.size, keep=name)
                    _download(address, facts, folder / f"{name}{_PART}", copy)
        with contextlib.suppress(FileNotFoundError):
            os.utime(copy)  # used now
            return io.BufferedReader(CopyFile(copy))
    return None


def _download(address: str, facts: Facts, part: Path, copy: Path) -> None:
    try:
        with part.open("ab") as file:
            done = file.seek(0, os.SEEK_END)
            if done > facts.size:
                done = file.truncate(0)
            while done < facts.size:
                try:
                    data = fetch(address, done, min(done + BLOCK, facts.size), facts)
                except RemoteError as error:
                    if error.reason != NO_RANGES:
                        raise
                    file.truncate(0)
                    data = fetch_whole(address, min(_WHOLE, facts.size))
                    done = 0
                file.write(data)
                done += len(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        blame_the_machine(error)
        raise
    part.replace(copy)


def _make_room(folder: Path, left: int, keep: str) -> None:
    """Remove the copies used longest ago until what remains fits into ``left`` bytes."""
    with exclusive(folder / ".room.lock"):
        held: list[tuple[float, int, Path]] = []
        for entry in os.scandir(folder):
            if entry.name.endswith((_COPY, _PART)) and not entry.name.startswith(keep):
                with contextlib.suppress(FileNotFoundError):
                    facts = entry.stat()
                    held.append((facts.st_mtime, facts.st_size, Path(entry.path)))
        total = sum(size for _, size, _ in held)
        for used, size, path in sorted(held):
            if total <= left:
                return
            if path.suffix == _PART and used > time.time() - _ABANDONED:
                continue  # another process writes it
            path.unlink(missing_ok=True)
            total -= size


# A .npy matrix elsewhere: its rows are read by range when they are sliced.


_SPREAD = 4  # rows read for each row wanted, at most


class RemoteMatrix:
    """The part of a memory-mapped matrix that readers use: its shape, and rows by slice or by number."""

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise ValueError(f"unknown version {version} of the .npy format")
            self.shape, columns_first, self.dtype = read(file)
            self.offset = file.tell()
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects, whose loading runs code")
        if columns_first:
            raise ValueError("its columns lie together, not its rows; save it in C order")
        self.ndim = len(self.shape)
        width = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        self.strides = (width, self.dtype.itemsize)
        if path.stat().st_size < self.offset + len(self) * width:
            raise ValueError("the file ends before its last row")

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if isinstance(rows, tuple):
            return self[rows[0]][(slice(None), *rows[1:])]
        if isinstance(rows, slice):
            first, stop, step = rows.indices(len(self))
            return self._rows(first, max(first, stop))[::step] if step > 0 else self[:][rows]
        if isinstance(rows, int | np.integer):
            row: NDArray[Any] = self._rows(int(rows) % len(self), int(rows) % len(self) + 1)[0]
            return row
        numbers = np.arange(len(self))[np.asarray(rows)]
        if not len(numbers):
            return np.empty((0, *self.shape[1:]), self.dtype)
        first, stop = int(numbers.min()), int(numbers.max()) + 1
        if stop - first <= _SPREAD * len(numbers):  # one range is cheaper than many
            chosen: NDArray[Any] = self._rows(first, stop)[numbers - first]
            return chosen
        return np.stack([self._rows(int(number), int(number) + 1)[0] for number in numbers])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._rows(0, len(self)), dtype)

    def _rows(self, first: int, stop: int) -> NDArray[Any]:
        width = self.strides[0]
        with self._path.open("rb") as file:
            file.seek(self.offset + first * width)
            data = file.read((stop - first) * width)
        return np.frombuffer(data, self.dtype).reshape(stop - first, *self.shape[1:])


def entries(folder: Path) -> Iterator[Path]:
    """What lies in a folder, one by one: ``Path.iterdir`` and ``Path.glob`` list a million files first."""
    if isinstance(folder, RemotePath):
        yield from folder.iterdir()
        return
    with os.scandir(folder) as inside:
        for entry in inside:
            yield Path(entry.path)


class QuantisedRows:
    """Rows stored as int8, read as unit vectors: the scale by which numbers became integers falls out of them."""

    dtype = np.dtype(np.float32)

    def __init__(self, stored: Any) -> None:
        self.stored = stored
        self.shape, self.ndim = stored.shape, stored.ndim

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        which, *columns = rows if isinstance(rows, tuple) else (rows,)
        chosen = np.asarray(self.stored[which], np.float32)
        # Exact in float64 in whatever order they are summed: the GPU's rows are the same to the last bit.
        squares = np.einsum("...i,...i->...", chosen, chosen, dtype=np.float64)
        lengths = np.sqrt(squares.astype(np.float32))[..., None]
        unit = np.asarray(chosen / np.where(lengths > 0, lengths, np.float32(1)), np.float32)
        return unit[(..., *columns)] if columns else unit

    def among(self, rows: NDArray[np.intp]) -> QuantisedRows:
        """Some of them, in memory and still as they are stored."""
        return QuantisedRows(np.asarray(self.stored[rows]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


def open_rows(path: Path) -> Any:
    """A .npy matrix, mapped where it lies on this machine. Plain arrays only: pickles run code.
    Rows of int8 are read as unit vectors.

    Raises:
        OSError, ValueError, EOFError, SyntaxError: It is no such matrix.
    """
    matrix: Any
    if isinstance(path, RemotePath):
        matrix = RemoteMatrix(path)
    else:
        matrix = np.lib.format.open_memmap(path, mode="r")
    return QuantisedRows(matrix) if matrix.dtype == np.int8 and matrix.ndim == 2 else matrix
