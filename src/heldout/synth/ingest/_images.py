"""Images of figures: whether one can be used, and a copy of its bytes in the run folder."""

from __future__ import annotations

import csv
import hashlib
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import normal
from heldout.image import IMAGE_ENDINGS, ImageError, decode, native_size, to_rgb
from heldout.store import Dropped, write_atomic
from heldout.synth.draft import FigureImage, PaperFigure
from heldout.synth.ingest._jats import read_licence


def look_at(data: bytes, location: str, shortest: int) -> FigureImage | str:
    """The image, or why it cannot be used, as ``reason: detail``."""
    try:
        width, height = native_size(data)
    except ImageError as error:
        return f"{error.reason}: {location}, {error.detail}"
    if min(width, height) < shortest:
        return f"image too small: {location}, {width} × {height}, shortest side at least {shortest}"
    return FigureImage(location, hashlib.sha256(data).hexdigest(), width, height)


def read_located(locations: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The bytes at these locations; every archive is read once, in its own order."""
    inside: dict[str, set[str]] = defaultdict(set)
    for location in dict.fromkeys(locations):
        archive, member = _split(location)
        if member:
            inside[archive].add(member)
        else:
            yield location, Path(location).read_bytes()
    for archive, wanted in inside.items():
        with tarfile.open(archive, "r|*") as package:
            for entry in package:
                if entry.name in wanted and entry.isfile():
                    file = package.extractfile(entry)
                    assert file is not None
                    yield f"{archive}!{entry.name}", file.read()


def _split(location: str) -> tuple[str, str]:
    """(archive, member) of ``ARCHIVE!MEMBER``; either of them may have a "!" in its own name."""
    at = location.find("!")
    while at >= 0 and not Path(location).is_file():
        if Path(location[:at]).is_file():
            return location[:at], location[at + 1 :]
        at = location.find("!", at + 1)
    return location, ""


def stored_name(image: FigureImage) -> str:
    """Where the run folder keeps this image: named by its content, so that equal images are one file."""
    ending = Path(image.location.rpartition("!")[2]).suffix.lower() or ".img"
    return f"synth/images/{image.sha256[:2]}/{image.sha256}{ending}"


def store(run: Path, image: FigureImage, data: bytes) -> bool:
    """Keep the bytes, if they are still those that were looked at: an archive may hold two members
    of one name, and a file may have changed since."""
    if hashlib.sha256(data).hexdigest() != image.sha256:
        return False
    target = run / stored_name(image)
    if not target.exists():
        write_atomic(target, data)
    return True


# Figures that a source holds twice: a package given twice, an article as XML and in a shard.


DUPLICATE, DUPLICATE_ID = "duplicate figure", "duplicate id"
_SIDE = 32
_MEAN, _MOST = 3.0, 24.0  # levels of 255: re-encoding stays far below, another picture far above
_EARLIER = 8  # figures of one caption to compare with: a more frequent caption is a stock caption
_WAITING = 2_000

Pixels = NDArray[np.uint8]
Known = tuple[str, tuple[str, ...]]  # a figure's id, and where its images are


class SeenFigures:
    """What was read so far, by digests of ids, of image bytes and of captions. Pictures are compared only
    where a caption comes again with other bytes, many at a time: an archive is then read once for all."""

    def __init__(self) -> None:
        self._ids: dict[bytes, set[bytes]] = {}  # by id what tells the figure: caption, images
        self._bytes: dict[bytes, str] = {}
        self._captions: dict[bytes, list[Known]] = {}
        self._waiting: list[tuple[PaperFigure, tuple[Known, ...]]] = []

    def refusal(self, figure: PaperFigure) -> tuple[str, str] | None:
        """Reason and detail of a figure whose id or very images are known; None for a new one."""
        key = _digest(*sorted(image.sha256 for image in figure.images))
        marks = {key, _digest(normal(figure.caption))}
        known = self._ids.setdefault(_digest(figure.id), marks)
        if known is not marks and not known & marks:
            return DUPLICATE_ID, f"{figure.source}: another figure has this id, with other words"
        earlier = self._bytes.setdefault(key, figure.id)
        if known is not marks or earlier != figure.id:
            return DUPLICATE, f"{figure.source}: the same figure as {earlier}"
        return None

    def waits(self, figure: PaperFigure) -> bool:
        """Whether earlier figures with as many images have this caption: ``compared`` will tell."""
        key = _digest(normal(figure.caption), str(len(figure.images)))
        earlier = self._captions.setdefault(key, [])
        waits = bool(earlier)
        if waits:
            self._waiting.append((figure, tuple(earlier)))
        if len(earlier) < _EARLIER:
            earlier.append((figure.id, _locations(figure)))
        return waits

    @property
    def full(self) -> bool:
        return len(self._waiting) >= _WAITING

    def compared(self) -> Iterator[tuple[PaperFigure, str]]:
        """Figures that waited, each with the id of an earlier one that shows the same; else empty."""
        needed = {place for figure, _ in self._waiting for place in _locations(figure)}
        needed |= {
            place for _, earlier in self._waiting for _, places in earlier for place in places
        }
        small = {place: _small(data) for place, data in read_located(sorted(needed))}
        for figure, earlier in self._waiting:
            own = _locations(figure)
            same = (name for name, places in earlier if _alike(own, places, small))
            yield figure, next(same, "")
        self._waiting.clear()


def _locations(figure: PaperFigure) -> tuple[str, ...]:
    return tuple(image.location for image in figure.images)


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


def _small(data: bytes) -> Pixels | None:
    try:
        image = to_rgb(decode(data)).resize((_SIDE, _SIDE))
    except ImageError:
        return None
    return np.asarray(image, np.uint8)


def _alike(
    places: tuple[str, ...], others: tuple[str, ...], small: Mapping[str, Pixels | None]
) -> bool:
    """The same pictures in the same order, whatever their size and encoding."""
    for place, other in zip(places, others, strict=True):
        ours, theirs = small.get(place), small.get(other)
        if ours is None or theirs is None:
            return False
        apart = np.abs(ours.astype(np.int16) - theirs)
        if apart.mean() > _MEAN or np.quantile(apart, 0.99) > _MOST:
            return False
    return True


# A local folder of captioned figures: one table (``captions.jsonl``, ``.csv`` or ``.tsv``), or a
# ``.txt`` per image.
#
# Columns: ``image`` (or ``images``, a list; or ``file_name``), ``caption``; optional ``id``, ``article``,
# ``references``, ``licence``, ``attribution``, ``primary``, ``secondary``.


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
