"""A .npy matrix elsewhere: its rows are read by range when they are sliced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.remote.path import RemotePath

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


def open_rows(path: Path) -> Any:
    """A .npy matrix, mapped where it lies on this machine. Plain arrays only: pickles run code.

    Raises:
        OSError, ValueError, EOFError, SyntaxError: It is no such matrix.
    """
    if isinstance(path, RemotePath):
        return RemoteMatrix(path)
    return np.lib.format.open_memmap(path, mode="r")
