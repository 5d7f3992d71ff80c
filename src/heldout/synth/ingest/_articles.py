"""Articles with their images: folders of JATS XML, and ``.tar.gz`` packages as PubMed Central
distributes them.
"""

from __future__ import annotations

import json
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from heldout.documents import MOST_XML, XmlError, parse_xml
from heldout.image import IMAGE_ENDINGS
from heldout.store import Dropped
from heldout.synth.draft import FigureImage, PaperFigure
from heldout.synth.ingest._images import look_at
from heldout.synth.ingest._jats import (
    Article,
    ArticleFigure,
    read_article,
    read_licence,
)

STAGE = "ingest"
XML_ENDINGS = (".xml", ".nxml")
PACKAGE_ENDINGS = (".tar.gz", ".tgz")
_MOST_MEMBERS = 10_000
_MOST_MEMBER = 512 * 2**20
_MOST_UNPACKED = 8 * 2**30
BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError)

Read = Callable[[str], bytes]


def folder_articles(path: Path, shortest: int) -> Iterator[PaperFigure | Dropped]:
    """Figures of one XML file; images are searched in its folder and below."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MOST_XML else b""
    except OSError as error:
        yield Dropped(STAGE, str(path), "unreadable XML", f"{error.strerror}")
        return
    if size > MOST_XML:
        yield Dropped(STAGE, str(path), "XML too large", f"{size:,} bytes")
        return
    names = {
        str(file.relative_to(path.parent)): file
        for file in sorted(path.parent.rglob("*"))
        if file.suffix.lower() in IMAGE_ENDINGS and file.is_file() and not file.is_symlink()
    }
    yield from _figures(
        data,
        str(path),
        path.parent.name,
        {name: str(file) for name, file in names.items()},
        lambda name: names[name].read_bytes(),
        shortest,
    )


def package_articles(path: Path, shortest: int) -> Iterator[PaperFigure | Dropped]:
    """Figures of one PMC package. Nothing is extracted; members are read where they are."""
    try:
        with tarfile.open(path, "r:*") as package:
            members: dict[str, tarfile.TarInfo] = {}
            unpacked = 0
            for number, member in enumerate(package):
                unpacked += member.size
                if number >= _MOST_MEMBERS or unpacked > _MOST_UNPACKED:
                    detail = f"more than {_MOST_MEMBERS:,} members, or {_MOST_UNPACKED:,} bytes"
                    yield Dropped(STAGE, str(path), "package too large", detail, scope="many")
                    return
                if member.isfile() and member.size <= _MOST_MEMBER:
                    members[member.name] = member

            def read(name: str) -> bytes:
                file = package.extractfile(members[name])
                assert file is not None
                return file.read()

            documents = [name for name in members if name.lower().endswith(XML_ENDINGS)]
            images = {
                name: f"{path}!{name}"
                for name in members
                if PurePosixPath(name).suffix.lower() in IMAGE_ENDINGS
            }
            if not documents:
                yield Dropped(STAGE, str(path), "package without XML", "no .nxml or .xml in it")
            for name in documents:
                if members[name].size > MOST_XML:
                    detail = f"{name}: {members[name].size:,} bytes"
                    yield Dropped(STAGE, str(path), "XML too large", detail)
                    continue
                stem = path.name.partition(".")[0]
                yield from _figures(read(name), f"{path}!{name}", stem, images, read, shortest)
    except BROKEN as error:
        yield Dropped(STAGE, str(path), "unreadable package", _one_line(error), scope="many")


def _one_line(error: BaseException) -> str:
    """What is wrong with an archive: the first line of the error, which lists several attempts."""
    lines = [line.strip(" -:") for line in str(error).splitlines()] or [type(error).__name__]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ({lines[-1]})"


def _figures(
    data: bytes, source: str, fallback: str, images: Mapping[str, str], read: Read, shortest: int
) -> Iterator[PaperFigure | Dropped]:
    """``images``: by name inside the package where each image lies."""
    try:
        article = read_article(parse_xml(data))
    except XmlError as error:
        yield Dropped(STAGE, source, "unreadable XML", str(error))
        return
    if article is None:
        return
    index = _index(images)
    for figure in article.figures:
        yield _figure(article, figure, source, fallback, images, index, read, shortest)


def _figure(
    article: Article,
    figure: ArticleFigure,
    source: str,
    fallback: str,
    images: Mapping[str, str],
    index: Mapping[str, str],
    read: Read,
    shortest: int,
) -> PaperFigure | Dropped:
    name = f"{article.id or fallback}/{figure.id}"
    if not figure.caption:
        return Dropped(STAGE, name, "no caption", source)
    if not figure.graphics:
        return Dropped(STAGE, name, "no image", f"{source}: the figure names no graphic")
    kept: list[FigureImage] = []
    for number, graphic in enumerate(figure.graphics):
        others = figure.names if len(figure.graphics) == 1 and number == 0 else ()
        member = _find(graphic, others, images, index)
        if member is None:
            return Dropped(STAGE, name, "missing image", f"{source}: no file for {graphic}")
        image = look_at(read(member), images[member], shortest)
        if isinstance(image, str):
            reason, _, detail = image.partition(": ")
            return Dropped(STAGE, name, reason, detail)
        kept.append(image)
    return PaperFigure(
        name,
        article.id or fallback,
        figure.label,
        figure.caption,
        figure.references,
        tuple(kept),
        *figure.licence[:3],
        article.attribution,
        source,
        licence_text=figure.licence.text,
    )


def _index(images: Mapping[str, str]) -> dict[str, str]:
    """By file name, by name without endings, in lower case: the first of each in order."""
    fields: dict[str, str] = {}
    for name in images:
        base = PurePosixPath(name).name.lower()
        for key in (base, base.rpartition(".")[0], base.partition(".")[0]):
            fields.setdefault(key, name)
    return fields


def _find(
    graphic: str, others: tuple[str, ...], images: Mapping[str, str], index: Mapping[str, str]
) -> str | None:
    if graphic in images:
        return graphic
    for called in (graphic, *others):
        base = PurePosixPath(called.rpartition("/")[2]).name.lower()
        for key in (base, base.rpartition(".")[0]):
            if key and key in index:
                return index[key]
    return None


# Biomedica's WebDataset shards: one image per sample, grouped into figures by article and caption.
#
# Fields of a sample's JSON that are read: ``image_cluster_id`` (the image's id), ``image_set`` (a
# list with the captions of all images of the article), ``image_context`` (mentions by image id),
# ``image_primary_label``, ``image_secondary_label``, ``article_accession_id``, ``article_license``,
# ``article_citation``, ``article_title``. The caption may also be the sample's ``.txt``.


_MARKS = ("image_cluster_id", "image_primary_label", "article_accession_id")
_NO_CAPTION = "no caption found"
_MOST_JSON = 16 * 2**20
_MOST_IMAGE = 512 * 2**20


def is_biomedica(path: Path) -> bool:
    """Whether the first JSON of this tar has Biomedica's fields."""
    try:
        with tarfile.open(path, "r|*") as shard:
            for number, entry in enumerate(shard):
                if entry.isfile() and entry.name.endswith(".json") and entry.size <= _MOST_JSON:
                    file = shard.extractfile(entry)
                    record = json.loads(file.read()) if file else {}
                    return isinstance(record, dict) and any(mark in record for mark in _MARKS)
                if number > 64:
                    break
    except (*BROKEN, ValueError, RecursionError):
        return False
    return False


def shard_figures(path: Path, shortest: int, most_images: int) -> Iterator[PaperFigure | Dropped]:
    """Figures of one shard. Images of one article with one caption are one figure; images of an
    article that continues in another shard are not joined."""
    groups: dict[tuple[str, str], list[_Image]] = {}
    try:
        with tarfile.open(path, "r|*") as shard:
            for sample in _samples(shard, path):
                if isinstance(sample, Dropped):
                    yield sample
                    continue
                image = _read_sample(sample, path, shortest)
                if isinstance(image, Dropped):
                    yield image
                    continue
                groups.setdefault((image.article, image.caption), []).append(image)
    except BROKEN as error:
        yield Dropped(STAGE, str(path), "unreadable shard", _one_line(error), scope="many")
    for images in groups.values():
        yield _joined(images, path, most_images)


class _Image:
    """One sample, read."""

    def __init__(self, record: Mapping[str, Any], caption: str, image: FigureImage) -> None:
        self.record, self.caption, self.image = record, caption, image
        self.id = str(
            record.get("image_cluster_id") or record.get("image_file_name") or image.sha256[:16]
        )
        self.article = str(record.get("article_accession_id") or record.get("pmid") or "unknown")
        self.primary = _texts(record.get("image_primary_label"))
        self.secondary = _texts(record.get("image_secondary_label"))
        self.references = _mentions(record.get("image_context"), self.id)


def _samples(shard: tarfile.TarFile, path: Path) -> Iterator[dict[str, bytes] | Dropped]:
    """Neighbouring members with one key, as bytes by ending; ``""`` holds the key, ``image`` its
    member name."""
    current: dict[str, bytes] = {}
    for entry in shard:
        if not entry.isfile():
            continue
        folder, _, base = entry.name.rpartition("/")
        stem, _, ending = base.partition(".")
        key = f"{folder}/{stem}".encode()
        if current and current[""] != key:
            yield current
            current = {}
        current.setdefault("", key)
        is_image = PurePosixPath(base).suffix.lower() in IMAGE_ENDINGS
        if entry.size > (_MOST_IMAGE if is_image else _MOST_JSON):
            yield Dropped(
                STAGE, f"{path}!{entry.name}", "member too large", f"{entry.size:,} bytes"
            )
            continue
        if is_image or ending in ("json", "txt"):
            file = shard.extractfile(entry)
            assert file is not None
            current["data" if is_image else ending] = file.read()
            if is_image:
                current["image"] = entry.name.encode()
    if current:
        yield current


def _read_sample(sample: Mapping[str, bytes], path: Path, shortest: int) -> _Image | Dropped:
    name = f"{path}!{sample[''].decode(errors='replace')}"
    if "data" not in sample:
        return Dropped(STAGE, name, "no image", "the sample holds no image")
    try:
        record = json.loads(sample.get("json", b"{}"))
    except (ValueError, RecursionError) as error:
        return Dropped(STAGE, name, "unreadable JSON", f"{type(error).__name__}: {error}"[:200])
    if not isinstance(record, dict):
        return Dropped(
            STAGE, name, "unreadable JSON", "expected an object with the sample's fields"
        )
    caption = _caption(record) or " ".join(sample.get("txt", b"").decode(errors="replace").split())
    if not caption or caption.lower() == _NO_CAPTION:
        return Dropped(STAGE, name, "no caption", "neither image_set nor .txt has one")
    image = look_at(sample["data"], f"{path}!{sample['image'].decode()}", shortest)
    if isinstance(image, str):
        reason, _, detail = image.partition(": ")
        return Dropped(STAGE, name, reason, detail)
    return _Image(record, caption, image)


def _caption(record: Mapping[str, Any]) -> str:
    entries: Any = record.get("image_set")
    entries = entries.values() if isinstance(entries, dict) else entries
    own = record.get("image_cluster_id")
    for entry in entries if hasattr(entries, "__iter__") and not isinstance(entries, str) else ():
        if isinstance(entry, dict) and own is not None and entry.get("image_id") == own:
            return " ".join(str(entry.get("caption") or "").split())
    return " ".join(str(record.get("caption") or record.get("image_caption") or "").split())


def _mentions(context: Any, identifier: str) -> tuple[str, ...]:
    """``image_context`` is an object by image id, or a list of such objects."""
    mentions: dict[str, None] = {}
    for part in context if isinstance(context, list) else [context]:
        for text in _texts(part.get(identifier)) if isinstance(part, dict) else ():
            mentions[" ".join(text.split())] = None
    return tuple(text for text in mentions if text)


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(str(value).strip() for value in values if value not in (None, ""))


def _joined(images: list[_Image], path: Path, most_images: int) -> PaperFigure | Dropped:
    first = images[0]
    name = f"{first.article}/{first.id}"
    if len(images) > most_images:
        return Dropped(
            STAGE, name, "too many images", f"{len(images)} of one caption, at most {most_images}"
        )
    licence = read_licence(str(first.record.get("article_license") or ""))
    about = (first.record.get("article_citation"), first.record.get("article_title"), first.article)
    attribution = ". ".join(str(part).rstrip(".") for part in about if part)
    references = tuple(dict.fromkeys(text for image in images for text in image.references))
    return PaperFigure(
        name,
        first.article,
        "",
        first.caption,
        references,
        tuple(image.image for image in images),
        *licence[:3],
        attribution,
        str(path),
        primary="; ".join(dict.fromkeys(label for image in images for label in image.primary)),
        secondary="; ".join(dict.fromkeys(label for image in images for label in image.secondary)),
        licence_text=licence.text,
    )
