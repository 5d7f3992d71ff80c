"""Rows that exceed memory: kept in temporary files, so that rows with one key come back together."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_PARTS = 64
_HELD = 1 << 20  # rows in memory


class Partitions:
    """Records of fixed size, divided by a column of 64 random bits. Few of them stay in memory; of more, one
    part in ``_PARTS`` is read at a time."""

    def __init__(self, columns: Mapping[str, npt.DTypeLike], *, by: str) -> None:
        self._type = np.dtype(list(columns.items()))
        self._by = by
        self._held: list[npt.NDArray[Any]] = []
        self._rows = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, **columns: npt.NDArray[Any]) -> None:
        records = np.empty(len(columns[self._by]), self._type)
        for name, values in columns.items():
            records[name] = values
        self._held.append(records)
        self._rows += len(records)
        if self._rows > _HELD:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="heldout-")
        records = np.concatenate(self._held)
        parts = (records[self._by] % _PARTS).astype(np.uint8)
        order = np.argsort(parts, kind="stable")
        records, ends = records[order], np.cumsum(np.bincount(parts, minlength=_PARTS))
        for number, part in enumerate(np.split(records, ends[:-1])):
            with self._file(number).open("ab") as file:
                file.write(part.tobytes())
        self._held, self._rows = [], 0

    def _file(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}"

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Every part, its records in the order in which they came."""
        if self._folder is None:
            if self._held:
                yield np.concatenate(self._held)
            return
        if self._held:
            self._spill()
        for number in range(_PARTS):
            yield np.fromfile(self._file(number), self._type)
