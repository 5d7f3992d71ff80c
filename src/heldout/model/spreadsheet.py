"""Rows of an .xlsx file, as VLMEvalKit writes its predictions: the first sheet, its first row the names.

Read with the standard library: cells are text, numbers or booleans, and formulas are taken by the value
that was saved with them.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from heldout.benchmark import FileRow
from heldout.errors import InputError

LARGEST_PART = 512 * 2**20  # bytes of one part when unpacked: a zip of a few MB may claim terabytes
_CELL = re.compile(r"([A-Z]{1,3})\d+")


def spreadsheet_rows(path: Path) -> Iterator[FileRow]:
    """``number`` is the row as a person sees it in the sheet."""
    try:
        with zipfile.ZipFile(path) as archive:
            shared = _shared(archive, path)
            names: dict[int, str] = {}
            for number, cells in _rows(archive, path, shared):
                if not names:
                    names = {column: str(value).strip() for column, value in cells.items()}
                elif cells:
                    # A cell that was left empty is an empty text, as in the same table as CSV.
                    yield FileRow(number, {name: cells.get(c, "") for c, name in names.items()})
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a readable .xlsx file ({error}); save it as CSV") from error


def _shared(archive: zipfile.ZipFile, path: Path) -> list[str]:
    name = "xl/sharedStrings.xml"
    if name not in archive.namelist():
        return []
    texts = []
    for element in _elements(archive, name, path, "si"):
        texts.append(_text(element))
    return texts


def _rows(
    archive: zipfile.ZipFile, path: Path, shared: list[str]
) -> Iterator[tuple[int, dict[int, Any]]]:
    sheets = [n for n in archive.namelist() if re.fullmatch(r"xl/worksheets/sheet\d*\.xml", n)]
    if not sheets:
        raise InputError(f"{path}: the .xlsx file has no sheet")
    first = min(sheets, key=lambda name: (len(name), name))
    for count, row in enumerate(_elements(archive, first, path, "row"), 1):
        cells: dict[int, Any] = {}
        for place, cell in enumerate(row):
            named = _CELL.fullmatch(cell.get("r", ""))
            value = _value(cell, shared)
            if value is not None:
                cells[_column(named[1]) if named else place] = value
        yield int(row.get("r", count)), cells


def _elements(
    archive: zipfile.ZipFile, name: str, path: Path, wanted: str
) -> Iterator[ElementTree.Element]:
    """One element at a time: a sheet of a hundred thousand predictions does not stay in memory."""
    if archive.getinfo(name).file_size > LARGEST_PART:
        raise InputError(f"{path}: {name} unpacks to more than {LARGEST_PART:,} bytes")
    with archive.open(name) as file:
        if b"<!DOCTYPE" in file.read(4096):  # no program writes one; entities that grow need one
            raise InputError(f"{path}: {name} declares a document type; save the sheet as CSV")
    with archive.open(name) as file:
        for _, element in ElementTree.iterparse(file):
            if _local(element) == wanted:
                yield element
                element.clear()


def _value(cell: ElementTree.Element, shared: list[str]) -> Any:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    text = next((part.text for part in cell if _local(part) == "v"), None)
    if text is None:
        return None
    if kind == "s":
        place = int(text) if text.isdecimal() else -1
        return shared[place] if 0 <= place < len(shared) else None
    if kind == "b":
        return text == "1"
    if kind != "n":
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _text(element: ElementTree.Element) -> str:
    """The words of a cell, less the reading aids that Japanese sheets put beside them."""
    parts = []
    for part in element.iter():
        if _local(part) == "rPh":
            part.clear()
        elif _local(part) == "t":
            parts.append(part.text or "")
    return "".join(parts)


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
