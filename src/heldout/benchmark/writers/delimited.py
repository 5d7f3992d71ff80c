"""CSV and TSV: chosen records byte for byte; an image whose row is gone moves to a row that used it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.delimited import DelimitedTable, Record, record_fields, records
from heldout.benchmark.readers.pipes import PipeAnswers
from heldout.benchmark.writers.base import FilePart
from heldout.benchmark.writers.json_rows import load_text, store_text
from heldout.errors import InputError


class DelimitedWriter:
    name = "delimited"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        first = DelimitedTable.open(parts[0].path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            out.write(_opening(first))
            for part in parts:
                table = DelimitedTable.open(part.path)
                if (table.columns, table.delimiter) != (first.columns, first.delimiter):
                    raise InputError(
                        f"{part.path} has other columns than {parts[0].path}, whose split it would "
                        f"join: expected {', '.join(first.columns)}, found {', '.join(table.columns)}"
                    )
                # In a file joined from several an index may occur twice: nothing is shared there.
                images = _SharedImages.of(table, part.rows, alone=len(parts) == 1)
                for record in images.records(part.rows):
                    out.write(record if record.endswith(b"\n") else record + b"\n")


def _opening(table: DelimitedTable) -> bytes:
    """The byte order mark and the names of the columns, where the file has them."""
    first = next(records(table.path, table.delimiter))
    if first.wide:  # UTF-16 is written as UTF-8
        start = first.data if table.header else b""
    else:
        with table.path.open("rb") as file:
            start = file.read(first.offset + (first.length if table.header else 0))
    return start if start.endswith(b"\n") or not table.header else start + b"\n"


class _SharedImages:
    """In VLMEvalKit a row may name the index of the row whose image it shows."""

    def __init__(self, table: DelimitedTable, column: int | None, index: int | None) -> None:
        self.table = table
        self.column = column
        self.index = index
        self.replaced: dict[int, str] = {}  # row number → what its image field says from now on

    @classmethod
    def of(cls, table: DelimitedTable, rows: frozenset[int], *, alone: bool) -> _SharedImages:
        lowered = {column.lower(): place for place, column in enumerate(table.columns)}
        shared = cls(table, lowered.get("image"), lowered.get("index"))
        if shared.column is not None and shared.index is not None:
            shared._move(rows, alone)
        return shared

    def _move(self, rows: frozenset[int], alone: bool) -> None:
        owners: dict[str, int] = {}
        named: dict[int, tuple[str, str]] = {}  # row → its own index, the index it names
        for number, _, fields in self._good():
            own, image = fields[self.index or 0].strip(), fields[self.column or 0]
            if names_a_row(image):
                named[number] = (own, image.strip())
            else:
                owners[own] = number
        lost = {
            number: (own, wanted)
            for number, (own, wanted) in named.items()
            if number in rows and wanted in owners and not (alone and owners[wanted] in rows)
        }
        if not lost:
            return
        needed = {owners[wanted] for _, wanted in lost.values()}
        images = {
            number: fields[self.column or 0]
            for number, _, fields in self._good()
            if number in needed
        }
        heirs: dict[str, str] = {}  # index that is gone → index of the row that has its image now
        for number, (own, wanted) in lost.items():
            if alone and wanted in heirs:
                self.replaced[number] = heirs[wanted]
            else:
                self.replaced[number] = images[owners[wanted]]
                if names_a_row(own):
                    heirs[wanted] = own

    def records(self, rows: frozenset[int]) -> Iterator[bytes]:
        for number, record in enumerate(self.table.data(), 1):
            if number not in rows:
                continue
            yield self._rewritten(record, number) if number in self.replaced else record.data

    def _rewritten(self, record: Record, number: int) -> bytes:
        fields = record_fields(record, self.table.delimiter)
        assert not isinstance(fields, str) and self.column is not None
        fields[self.column] = self.replaced[number]
        ending = "\r\n" if record.data.endswith(b"\r\n") else "\n"
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.table.delimiter, lineterminator=ending).writerow(fields)
        return text.getvalue().encode("utf-8" if record.wide else record.encoding)

    def _good(self) -> Iterator[tuple[int, Record, list[str]]]:
        for number, record in enumerate(self.table.data(), 1):
            fields = record_fields(record, self.table.delimiter)
            if self.table.problem(record, fields) is None and not isinstance(fields, str):
                yield number, record, fields


def names_a_row(text: str) -> bool:
    short = text.strip()
    return 0 < len(short) <= 64 and short.isascii() and short.isdecimal()


# ImageCLEF VQA-Med's text files: chosen lines as they were, and the answers that belong to them.


class PipesWriter:
    name = "vqa-med"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        questions: list[str] = []
        answer_lines: list[str] = []
        for part in parts:
            answers = PipeAnswers.beside(part.path)
            # Lines end where they end for the reader; bytes that are not UTF-8 survive.
            lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", load_text(part.path))
            for number, line in enumerate(lines, 1):
                image = line.removeprefix("\ufeff").split("|")[0]
                texts = answers.take(image)
                if number in part.rows:
                    questions.append(line if line.endswith(("\n", "\r")) else line + "\n")
                    answer_lines += ["|".join([image, *texts]) + "\n"] if texts else []
        store_text(target, "".join(questions))
        if answer_lines:
            stem = re.sub(r"questions?", "", target.stem, flags=re.IGNORECASE).rstrip("-_")
            store_text(target.with_name(f"{stem}-Answers.txt"), "".join(answer_lines))
