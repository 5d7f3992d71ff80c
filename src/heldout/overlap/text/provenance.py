"""Where an item comes from: article ids, DOIs, URLs and telling file names, on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heldout.benchmark import Example
from heldout.corpus import CorpusItem
from heldout.image import ImageRef

_PMC = re.compile(r"\bPMC[\s:_-]?(\d{4,9})(?!\d)", re.IGNORECASE)
_DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"'<>{}|\\^`\[\]]{2,200}", re.IGNORECASE)
_URL = re.compile(r"\bhttps?://[^\s\"'<>{}|\\^`\[\]]{4,1000}", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:jpe?g|png|gif|tiff?|webp|bmp|dcm|svg|nii|gz)$", re.IGNORECASE)
_TELLING = 5  # digits that make a file name more than "image 12"
_READ = 20_000  # characters of a text in which ids are looked for
_SHARED = 0.1  # an id that a tenth of the benchmark carries is its licence or its home page


class Source(NamedTuple):
    kind: str  # pmc, doi, url, file
    value: str


def sources_in(text: str) -> Iterator[Source]:
    """Ids in running text; closing punctuation and what a URL is fetched with are not part of them."""
    text = text[:_READ]
    if "10." in text:
        for found in _DOI.finditer(text):
            yield Source("doi", found[0].lower().rstrip(".,;:)/"))
    if "pmc" in text.lower():
        for found in _PMC.finditer(text):
            yield Source("pmc", found[1].lstrip("0"))
    if "://" in text:
        for found in _URL.finditer(text):
            address = found[0].rstrip(".,;:)/")
            rest = address.partition("://")[2].partition("#")[0]
            host, slash, path = rest.partition("/")
            if path:  # a host alone says where thousands of things come from
                yield Source("url", host.lower().removeprefix("www.") + slash + path)


def file_source(name: str) -> Source | None:
    """A file name that can be recognised elsewhere: "synpic54610", not "source" or "image12".

    Nine digits alone are the running number of an archive's member, in every archive there is.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].partition("?")[0]
    stem = _ENDING.sub("", last).lower()
    digits = sum(character.isdigit() for character in stem)
    if digits < _TELLING or len(stem) < 8 or (digits == len(stem) and digits < 10):
        return None
    return Source("file", stem)


def example_sources(example: Example) -> set[Source]:
    texts = [*_strings(example.metadata), example.question or "", example.answer or ""]
    return _collect(texts, example.images)


def item_sources(item: CorpusItem) -> set[Source]:
    texts = [*_strings(item.metadata), item.text or "", item.question or ""]
    return _collect(texts, (item.image,) if item.image is not None else ())


class ProvenanceIndex:
    """Ids of benchmark items; an id that too many of them carry identifies nothing."""

    def __init__(self, found: Sequence[set[Source]], clusters: Sequence[str]) -> None:
        by_source: dict[Source, list[int]] = {}
        for position, sources in enumerate(found):
            for source in sources:
                by_source.setdefault(source, []).append(position)
        most = max(3, int(_SHARED * len(set(clusters))))
        groups = {
            source: {clusters[position] for position in items}
            for source, items in by_source.items()
        }
        self.by_source = {
            s: tuple(items) for s, items in by_source.items() if len(groups[s]) <= most
        }
        self.shared = {s: len(groups[s]) for s in by_source if len(groups[s]) > most}

    def find(self, item: CorpusItem) -> Iterator[tuple[Source, tuple[int, ...]]]:
        if self.by_source:
            for source in sorted(item_sources(item)):
                if source in self.by_source:
                    yield source, self.by_source[source]


def _collect(texts: Sequence[str], images: Sequence[ImageRef]) -> set[Source]:
    found = {source for text in texts if text for source in sources_in(text)}
    for ref in images:
        found.update(sources_in(ref.name))
        if (source := file_source(ref.name)) is not None:
            found.add(source)
    return found


def _strings(metadata: Mapping[str, Any]) -> Iterator[str]:
    for key, value in metadata.items():
        if isinstance(value, str):
            yield value
            if "pmc" in key.lower() and value.strip().isdigit():
                yield f"PMC{value.strip()}"
        elif isinstance(value, list | tuple):
            yield from (part for part in value[:50] if isinstance(part, str))
