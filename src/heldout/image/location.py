"""Places an image's bytes can be. Each is small, hashable, picklable, and reads on demand.

A benchmark of 100,000 images is a list of these; none of them holds pixels except ``InlineBytes``
and ``EncodedText``, which exist because the bytes came inline and lie nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import csv
import functools
import io
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from PIL import Image

from heldout.errors import blame_the_machine
from heldout.image._dicom import header_ids
from heldout.image.decode import decode
from heldout.image.problem import MAX_BYTES, ImageError, ending
from heldout.remote import RemotePath, located, reason_of

# A base64 image is one field; the csv module's default limit is 128 KiB.
csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))


class Location(Protocol):
    def read(self) -> bytes: ...

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class FileOnDisk:
    path: str

    def read(self) -> bytes:
        try:
            path = located(self.path)
            if isinstance(path, RemotePath):
                return path.read_bytes()  # one request; longer files than may be are refused there
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):  # a pipe would wait for its writer
                raise ImageError("not a regular file", self.describe())
            if facts.st_size > MAX_BYTES:
                detail = f"{self.describe()}: {facts.st_size:,} bytes"
                raise ImageError("image file too large", detail)
            return path.read_bytes()
        except OSError as error:
            blame_the_machine(error)
            reason = reason_of(error, "missing image")
            raise ImageError(reason, f"{self.describe()}: {error.strerror}") from error

    def describe(self) -> str:
        # A name that is not UTF-8 holds surrogates, which no table accepts.
        return self.path.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class InlineBytes:
    data: bytes
    where: str

    def read(self) -> bytes:
        return self.data

    def describe(self) -> str:
        return self.where

    def __repr__(self) -> str:
        return f"InlineBytes({len(self.data):,} bytes, {self.where!r})"


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A data URL or bare base64, decoded when looked at."""

    text: str
    where: str

    def read(self) -> bytes:
        return decode_text(self.text, self.where)

    def raw(self) -> bytes:
        return self.text.encode("utf-8", "surrogatepass")

    def describe(self) -> str:
        return self.where

    def __repr__(self) -> str:
        return f"EncodedText({len(self.text):,} characters, {self.where!r})"


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The dataset names a picture that is not there (or may not be opened): reading gives the reason."""

    reason: str
    detail: str

    def read(self) -> bytes:
        raise ImageError(self.reason, self.detail)

    def describe(self) -> str:
        return f"{self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class TarMember:
    """A member of an uncompressed tar, by offset: one seek, no scan."""

    path: str
    member: str
    offset: int
    size: int

    def read(self) -> bytes:
        data = _read_span(self.path, self.offset, self.size)
        if len(data) < self.size:
            raise ImageError("truncated image", f"{self.describe()}: the tar ends early")
        return data

    def describe(self) -> str:
        return f"{self.path}!{self.member}"


@dataclass(frozen=True, slots=True)
class ParquetCell:
    """One cell of a Parquet column that holds bytes, a data URL or an {bytes, path} struct."""

    path: str
    row_group: int
    row: int
    column: str
    index: int = -1  # position inside a list cell; -1 when the cell is one image

    def read(self) -> bytes:
        column = _parquet_column(self.path, self.row_group, self.column)
        return _cell_bytes(column[self.row].as_py(), self.index, self.describe(), self.path)

    def describe(self) -> str:
        return f"{self.path} row group {self.row_group} row {self.row} column {self.column}"


@dataclass(frozen=True, slots=True)
class ArrowCell:
    """One cell of an Arrow IPC file as ``datasets.save_to_disk`` writes it; memory-mapped."""

    path: str
    row: int
    column: str
    index: int = -1

    def read(self) -> bytes:
        cell = arrow_table(self.path).column(self.column)[self.row].as_py()
        return _cell_bytes(cell, self.index, self.describe(), self.path)

    def describe(self) -> str:
        return f"{self.path} row {self.row} column {self.column}"


@dataclass(frozen=True, slots=True)
class TextField:
    """A base64 field of one record of a delimited text file, by the record's byte span.

    VLMEvalKit keeps whole benchmarks as one TSV of base64: gigabytes that must not be held.
    """

    path: str
    offset: int
    length: int
    delimiter: str
    field: int
    encoding: str
    index: int = (
        -1
    )  # position in a JSON/Python list of base64 strings; -1 when the field is one image

    def read(self) -> bytes:
        return decode_text(self._field(), self.describe())

    def raw(self) -> bytes:
        return self._field().encode("utf-8", "surrogatepass")

    def _field(self) -> str:
        try:
            text = _read_span(self.path, self.offset, self.length).decode(self.encoding)
            record = next(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter))
            value = record[self.field]
            if self.index >= 0:
                value = split_list(value)[self.index]
        except (csv.Error, UnicodeDecodeError, StopIteration, IndexError) as error:
            raise ImageError(
                "missing image", f"{self.describe()}: the file changed: {error}"
            ) from error
        return value

    def describe(self) -> str:
        return f"{self.path} byte {self.offset} field {self.field + 1}"


def decode_text(text: str, where: str) -> bytes:
    """Bytes of a data URL or of bare base64."""
    text = text.strip()
    if text.startswith("data:"):
        header, comma, payload = text.partition(",")
        if not comma:
            raise ImageError("not an image", f"{where}: a data URL without a comma")
        if not header.endswith(";base64"):
            return unquote_to_bytes(payload)
        text = payload
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError("not an image", f"{where}: not valid base64 ({error})") from error


def split_list(text: str) -> list[str]:
    """A field such as ``['a', 'b']`` or ``["a", "b"]`` as its strings; any other text as one."""
    import ast

    if text.startswith("[") and text.endswith("]"):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return [text]
        if isinstance(value, list):
            return [str(part) for part in value]
    return [text]


def _read_span(path: str, offset: int, length: int) -> bytes:
    if length > MAX_BYTES:
        raise ImageError("image file too large", f"{path} at byte {offset}: {length:,} bytes")
    try:
        with located(path).open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        blame_the_machine(error)
        reason = reason_of(error, "missing image")
        raise ImageError(reason, f"{path}: {error.strerror}") from error


def _cell_bytes(cell: Any, index: int, where: str, path: str) -> bytes:
    if index >= 0 and isinstance(cell, list):
        cell = cell[index]
    if isinstance(cell, dict):
        data, name = cell.get("bytes"), cell.get("path")
        if data is None and name:
            # Only a plain relative name beside the file is followed: the column is untrusted.
            relative = Path(name)
            if relative.is_absolute() or ".." in relative.parts:
                raise ImageError("image outside the dataset folder", f"{where}: {name}")
            return FileOnDisk(str(located(path).parent / relative)).read()
        cell = data
    if cell is None:
        raise ImageError("missing image", f"{where}: the cell is empty")
    if isinstance(cell, str):
        return decode_text(cell, where)
    return bytes(cell)


@functools.lru_cache(maxsize=2)
def _parquet_column(path: str, row_group: int, column: str) -> Any:
    """One column chunk. Two are kept, so that reading rows in order reads each chunk once."""
    from heldout.image._parquet import BoundedParquet

    try:
        with BoundedParquet(path) as file:
            return file.whole(row_group, column)
    except (OSError, ValueError) as error:
        blame_the_machine(error)
        raise ImageError(reason_of(error, "missing image"), f"{path}: {error}") from error


@functools.lru_cache(maxsize=16)
def arrow_table(path: str) -> Any:
    """A memory-mapped Arrow table, whether the file is a stream (save_to_disk) or a random-access file."""
    import pyarrow as pa

    place = located(path)
    # A stream elsewhere is read into memory; its row groups cannot be told apart without reading it.
    source = place.open("rb") if isinstance(place, RemotePath) else pa.memory_map(path)
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


# ImageRef: a picture that is read on demand.


@dataclass(frozen=True, slots=True)
class ImageRef:
    """``name`` is what the dataset calls the picture; ``location`` is where its bytes really are."""

    name: str
    location: Location

    def read(self) -> bytes:
        """The original bytes, never re-encoded."""
        return self.location.read()

    def open(self) -> Image.Image:
        """Native pixels."""
        return decode(self.read())

    @property
    def source(self) -> str:
        """Its place for people: a path, ``archive.tar!member``, ``file.tsv row 12``."""
        return self.location.describe()

    def lost(self, detail: str) -> str:
        """``detail`` of why it could not be read, with its place unless that says the same."""
        return detail if detail in self.source else f"{self.source}: {detail}"


_DICOM = (".dcm", ".dicom", ".ima")


def dicom_ids(ref: ImageRef) -> dict[str, str]:
    """Patient, study and series of a DICOM file, the widest first; {} of any other picture.

    Only files with an ending of DICOM's, or on disk with none, are read.
    """
    bare = not ending(ref.name) and isinstance(ref.location, FileOnDisk)
    if not bare and ending(ref.name) not in _DICOM:
        return {}
    try:
        return header_ids(ref.read())
    except ImageError:
        return {}
