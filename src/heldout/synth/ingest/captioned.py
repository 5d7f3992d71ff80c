"""A local folder of captioned figures: one table (``captions.jsonl``, ``.csv`` or ``.tsv``), or a
``.txt`` per image.

Columns: ``image`` (or ``images``, a list; or ``file_name``), ``caption``; optional ``id``, ``article``,
``references``, ``licence``, ``attribution``, ``primary``, ``secondary``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heldout.image import IMAGE_ENDINGS
from heldout.store import Dropped
from heldout.synth.draft import FigureImage, PaperFigure
from heldout.synth.ingest.images import look_at
from heldout.synth.ingest.licence import read_licence

STAGE = "ingest"
TABLES = ("captions.jsonl", "metadata.jsonl", "captions.csv", "metadata.csv", "captions.tsv")
_MOST_LINE = 16 * 2**20
_MOST_CAPTION = 2**20


def caption_table(folder: Path) -> Path | None:
    """The table of a captioned folder, if it has one."""
    return next((folder / name for name in TABLES if (folder / name).is_file()), None)


def table_figures(table: Path, shortest: int) -> Iterator[PaperFigure | Dropped]:
    for number, row in _rows(table):
        where = f"{table}, row {number}"
        if isinstance(row, str):
            yield Dropped(STAGE, where, "unreadable row", row)
        else:
            yield _figure(row, where, table.parent, shortest)


def sidecar_figures(folder: Path, shortest: int) -> Iterator[PaperFigure | Dropped]:
    """Every image with a ``.txt`` of the same name beside it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in IMAGE_ENDINGS or path.is_symlink() or not path.is_file():
            continue
        words = path.with_suffix(".txt")
        if not words.is_file():
            yield Dropped(STAGE, str(path), "no caption", f"expected {words.name} beside it")
            continue
        caption = words.read_bytes()[:_MOST_CAPTION].decode(errors="replace")
        name = str(path.relative_to(folder))
        row = {"image": name, "caption": caption, "id": name, "article": path.parent.name}
        yield _figure(row, str(path), folder, shortest)


def _rows(table: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    if table.suffix == ".jsonl":
        with table.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                if len(line) > _MOST_LINE:
                    yield number, f"{len(line):,} bytes"
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, f"{type(error).__name__}: {error}"[:200]
                    continue
                yield number, row if isinstance(row, dict) else "expected an object"
        return
    with table.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        reader = csv.DictReader(text, delimiter="\t" if table.suffix == ".tsv" else ",")
        while True:
            try:
                yield reader.line_num + 1, next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # this row alone
                yield reader.line_num, str(error)


def _figure(
    row: Mapping[str, Any], where: str, folder: Path, shortest: int
) -> PaperFigure | Dropped:
    names = _texts(row.get("images") or row.get("image") or row.get("file_name"))
    identifier = str(row.get("id") or (names[0] if names else where))
    article = str(row.get("article") or identifier)
    # Where no article is named, the figure is its own: "m0", not "m0/m0".
    own = article == identifier or identifier.startswith(f"{article}/")
    name = identifier if own else f"{article}/{identifier}"
    caption = " ".join(str(row.get("caption") or row.get("text") or "").split())
    if not caption:
        return Dropped(STAGE, name, "no caption", where)
    if not names:
        return Dropped(
            STAGE, name, "no image", f"{where}: expected a column image, images or file_name"
        )
    kept: list[FigureImage] = []
    for image_name in names:
        path = (folder / image_name).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return Dropped(STAGE, name, "missing image", f"{where}: {image_name}")
        image = look_at(path.read_bytes(), str(path), shortest)
        if isinstance(image, str):
            reason, _, detail = image.partition(": ")
            return Dropped(STAGE, name, reason, detail)
        kept.append(image)
    licence = read_licence(str(row.get("licence") or row.get("license") or ""))
    references = _texts(row.get("references") or row.get("context"))
    return PaperFigure(
        name,
        article,
        str(row.get("label") or ""),
        caption,
        references,
        tuple(kept),
        *licence[:3],
        str(row.get("attribution") or ""),
        where,
        str(row.get("primary") or ""),
        str(row.get("secondary") or ""),
        licence.text,
    )


def _texts(value: Any) -> tuple[str, ...]:
    """A list, a JSON list in a table's cell, or one text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return (value,)
    values = value if isinstance(value, list) else [value]
    return tuple(str(value).strip() for value in values if value not in (None, ""))
