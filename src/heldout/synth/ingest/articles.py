"""Articles with their images: folders of JATS XML, and ``.tar.gz`` packages as PubMed Central
distributes them."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from heldout.image import IMAGE_ENDINGS
from heldout.store import Dropped
from heldout.synth.draft import FigureImage, PaperFigure
from heldout.synth.ingest.images import look_at
from heldout.synth.ingest.jats import (
    MOST_BYTES,
    Article,
    ArticleFigure,
    XmlError,
    parse_xml,
    read_article,
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
        data = path.read_bytes() if size <= MOST_BYTES else b""
    except OSError as error:
        yield Dropped(STAGE, str(path), "unreadable XML", f"{error.strerror}")
        return
    if size > MOST_BYTES:
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
                if members[name].size > MOST_BYTES:
                    detail = f"{name}: {members[name].size:,} bytes"
                    yield Dropped(STAGE, str(path), "XML too large", detail)
                    continue
                stem = path.name.partition(".")[0]
                yield from _figures(read(name), f"{path}!{name}", stem, images, read, shortest)
    except BROKEN as error:
        yield Dropped(STAGE, str(path), "unreadable package", f"{error}", scope="many")


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
    found: dict[str, str] = {}
    for name in images:
        base = PurePosixPath(name).name.lower()
        for key in (base, base.rpartition(".")[0], base.partition(".")[0]):
            found.setdefault(key, name)
    return found


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
