"""The texts of a benchmark item and of a corpus item, field by field."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from heldout.benchmark import RELEASED, Example, normal
from heldout.corpus import CorpusItem
from heldout.image import ImageError, ImageRef, decode, dicom_ids, picture_lines
from heldout.overlap.texts._labelled import MARKED, labelled_texts, pointed_answer, stated_answers
from heldout.overlap.texts.normalise import options_key, options_text, strict

#: characters of a benchmark's text that are read, and of a corpus's that are read at once
LONGEST_TEXT = 1_000_000
_TWICE = 20_000  # characters at the end of such a piece that begin the next one, too

_TEXT = ("text", "caption", "description", "abstract", "content", "body")
_COLUMNS, _DEPTH = 200, 4  # strings of one row that are looked at, and how deep they may lie
_SENTENCE, _LETTERS = 5, 12  # words, or letters without spaces, from which on an answer is a text
_NUMBER = re.compile(r"(?:q(?:uestion)?\s*)?\(?\d{1,4}\s*[.):]\s+(?=\S)", re.IGNORECASE)

# Which corpus field a benchmark field is compared with as a whole. Containment asks all of them.
COMPARABLE: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "text", "picture"),
    "question+options": ("question+options", "question", "text", "picture"),
    "options": ("options",),
    "caption": ("text", "picture"),
}


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """One benchmark item; answers compare by ``normal``, as everywhere else, of what people read."""

    fields: tuple[tuple[str, str], ...]  # (field, strict text)
    answer: str
    options: str  # the same whatever their order; empty where there are none
    names: frozenset[str]  # file names of its pictures


def item_texts(example: Example) -> ItemTexts:
    question, answer = unnumbered(strict(example.question)), strict(example.answer)
    options = options_text(example.options) if len(example.options) > 1 else ""
    fields = []
    if question:
        fields.append(("question", question))
        if options:
            fields += [("question+options", f"{question} {options}"), ("options", options)]
        # A corpus may hold the question with the list or the hint that reading took out of it.
        if released := unnumbered(strict(example.metadata.get(RELEASED))):
            fields.append(("question+options" if options else "question", released))
    elif answer:
        fields.append(("caption", answer))
    return ItemTexts(
        tuple((field, text[:LONGEST_TEXT]) for field, text in fields),
        (final_answer(example.answer or "") or _answer_key(example.answer or ""))
        if question
        else "",
        options_key(example.options) if options else "",
        frozenset(name for ref in example.images if (name := _file_name(ref.name))),
    )


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus item, with what stands beside it."""

    corpus_id: str
    field: str
    text: str
    answers: tuple[str, ...] = ()  # accepted answers to this question, ``normal``
    options: str = ""
    image: str = ""  # the picture's file name
    pictured: bool = False  # the corpus item shows a picture, whatever it is called
    guessed: bool = False  # nothing says that these answers are any


def document_texts(item: CorpusItem) -> Iterator[Document]:
    """Questions of an item with their answers, then its free text where that is something else; a book in pieces."""
    for document in _whole_texts(item):
        if len(document.text) <= LONGEST_TEXT:
            yield document
        else:
            for text in _pieces(document.text):
                yield dataclasses.replace(document, text=text)


def _pieces(text: str) -> Iterator[str]:
    for begin in range(0, max(1, len(text) - _TWICE), LONGEST_TEXT - _TWICE):
        yield text[begin : begin + LONGEST_TEXT]


def _whole_texts(item: CorpusItem) -> Iterator[Document]:
    options = _options(item.metadata)
    key = options_key(options) if options else ""
    pictured = item.image is not None
    image = _file_name(item.image.name) if item.image is not None else ""
    answers_of: dict[str, list[str]] = {}
    texts = {piece: labelled_texts(piece) for text in _free_texts(item) for piece in _pieces(text)}
    pairs = [pair for labelled in texts.values() for pair in labelled.pairs]
    for question, answer in ((item.question, item.answer), *item.also, *pairs):
        if question:
            answers = answers_of.setdefault(unnumbered(question), [])
            answers += answer_keys(pointed_answer(question, answer or ""))
    for question, answers in answers_of.items():
        known = tuple(dict.fromkeys(answers))
        yield Document(item.id, "question", question, known, key, image, pictured)
        if options:
            both = f"{question} {options_text(options)}"
            yield Document(item.id, "question+options", both, known, key, image, pictured)
    if options:
        yield Document(item.id, "options", options_text(options), (), key, image, pictured)
    for answer in dict.fromkeys(answer for _, answer in pairs if _says_much(answer)):
        yield Document(item.id, "text", answer, (), "", image, pictured)
    for text, labelled in texts.items():
        if labelled.pairs and not _says_much(labelled.rest):
            continue  # nothing but its questions and answers, as if they had columns
        known = (labelled.pairs[0][1],) if len(labelled.pairs) == 1 else labelled.said
        keys = tuple(dict.fromkeys(key for answer in known for key in answer_keys(answer)))
        guessed = bool(labelled.said)
        yield Document(item.id, "text", text, keys, "", image, pictured, guessed)


def picture_text(item: CorpusItem) -> Iterator[Document]:
    """The words inside an item's picture, as one text: they stand for themselves, whatever it shows."""
    if item.image is None:
        return
    try:
        lines = picture_lines(decode(item.image.read()))
    except ImageError:  # listed by the scan of the pictures
        return
    if lines:
        yield Document(item.id, "picture", " ".join(lines), image=_file_name(item.image.name))


@functools.lru_cache(maxsize=2**14)
def _answer_key(answer: str) -> str:
    """The same on both sides: "<i>cyst</i>" is "cyst" in a benchmark and in a corpus."""
    return normal(strict(answer))


def answer_keys(answer: str) -> tuple[str, ...]:
    """What an answer compares by: the whole of it, the result that it ends with, and what it says that it is."""
    keys = [_answer_key(answer), final_answer(answer), *map(_answer_key, stated_answers(answer))]
    return tuple(dict.fromkeys(key for key in keys if key))


# Where a worked solution says its result: "#### 72" (GSM8K), \\boxed{72}, "The answer is 72."
_FINAL = re.compile(
    MARKED + r"|\b(?:final )?answer(?: is|:)\s*\$?\(?([^\n]{1,40}?)\)?\.?\s*$", re.IGNORECASE
)


@functools.lru_cache(maxsize=2**14)
def final_answer(answer: str) -> str:
    """The result at the end of a worked solution, ``normal``; empty where none is marked."""
    marked = list(_FINAL.finditer(answer))
    if not marked:
        return ""
    value = next(group for group in marked[-1].groups() if group is not None)
    return _answer_key(re.sub(r"(?<=\d),(?=\d{3}\b)", "", value.strip().lstrip("$")))


def _free_texts(item: CorpusItem) -> Iterator[str]:
    """Text that is not just the questions again: readers join those where an item has no other."""
    pairs = [(item.question, item.answer), *item.also]
    answers = [answer for _, answer in pairs if answer and _says_much(answer)]
    yield from dict.fromkeys(answers)  # "Describe the image." is answered by a whole caption
    known = [part for pair in pairs for part in pair if part and part.strip()]
    if item.text and (not known or _says_much(_without(item.text, known))):
        yield item.text
    yield from _unnamed_texts(item)


def _unnamed_texts(item: CorpusItem) -> Iterator[str]:
    """Words in columns whose names say nothing to a reader, such as "title", "ask" or "qestion", and a question once
    more with what follows it: its answer, it may be. Where a row has no other words, two of them are enough."""
    pairs = [(item.question, item.answer), *item.also]
    known = "\n".join(part for part in (item.text, *itertools.chain(*pairs)) if part)
    enough = _says_much if known else _is_several
    known = "\n".join([known, *_options(item.metadata)])
    values = list(itertools.islice(_words_in(item.metadata), _COLUMNS))
    for place, (column, value) in enumerate(values):
        text = value.strip()
        if text in known or not (column in _TEXT or enough(text) or text.endswith("?")):
            continue
        yield value
        after = values[place + 1][1].strip() if place + 1 < len(values) else ""
        if text.endswith("?") and after not in known and not after.endswith("?"):
            yield f"{text}\n{after}"  # or something else: then it is another text


def _words_in(value: Any, column: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Strings of a row with the column that they stand in, also within lists, mappings and JSON."""
    if isinstance(value, str):
        if depth and value[:1] in ("{", "["):
            try:
                yield from _words_in(json.loads(value[:LONGEST_TEXT]), column, depth + 1)
                return
            except (ValueError, RecursionError):
                pass
        # JSON can spell lone surrogates, which no table can hold.
        yield column, value if value.isascii() else value.encode("utf-8", "replace").decode()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield column, str(value)
    elif depth <= _DEPTH and isinstance(value, Mapping):
        for name, inner in value.items():
            if name != "options":
                yield from _words_in(inner, str(name), depth + 1)
    elif depth <= _DEPTH and isinstance(value, list | tuple):
        for inner in value:
            if not isinstance(inner, int | float):  # outlines of objects are long lists of numbers
                yield from _words_in(inner, column, depth + 1)


def _is_several(text: str) -> bool:
    return " " in text


def _says_much(text: str) -> bool:
    """Enough words, or in scripts without spaces enough letters, to be somebody's caption."""
    return len(text.split(None, _SENTENCE)) >= _SENTENCE or (
        not text.isascii() and len(text) >= _LETTERS
    )


def _without(text: str, parts: Sequence[str]) -> str:
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part.strip(), " ", 1)
    return text


def unnumbered(question: str) -> str:
    """A question without the number it had on its sheet: "12. What is …"."""
    match = _NUMBER.match(question)
    return question[match.end() :] if match else question


def _options(metadata: Mapping[str, Any]) -> list[str]:
    """Options as a list, as JSON text, or as a mapping of letters to texts."""
    value = metadata.get("options")
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple) or len(value) < 2:
        return []
    return [str(option) for option in value if option is not None]


def _file_name(name: str) -> str:
    """The last part of a path without its ending; with its folder where it is "source.jpg"."""
    parts = name.replace("\\", "/").partition("?")[0].rstrip("/").split("/")
    last = parts[-1].rpartition(".")[0] or parts[-1]
    return last if any(c.isdigit() for c in last) else "/".join([*parts[-2:-1], last])


# Where an item comes from: article ids, DOIs, URLs and telling file names, on both sides.


_PMC = re.compile(r"\bPMC[\s:_-]?(\d{4,9})(?!\d)", re.IGNORECASE)
_DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"'<>{}|\\^`\[\]]{2,200}", re.IGNORECASE)
_URL = re.compile(r"\bhttps?://[^\s\"'<>{}|\\^`\[\]]{4,1000}", re.IGNORECASE)
# What says how a reader came to a page; the page is the same without it.
_CAMPAIGN = re.compile(r"(?:utm_\w+|gclid|fbclid|mc_[ce]id)=", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:jpe?g|png|gif|tiff?|webp|bmp|dcm|svg|nii|gz)$", re.IGNORECASE)
_TELLING = 5  # digits that make a file name more than "image 12"
_READ = 20_000  # characters of a text in which ids are looked for
_SHARED = 0.1  # an id that a tenth of the benchmark carries is its licence or its home page


class TextSource(NamedTuple):
    kind: str  # pmc, doi, url, file, patient, study, series
    value: str


def sources_in(text: str) -> Iterator[TextSource]:
    """Ids in running text; closing punctuation and what a URL is fetched with are not part of them."""
    text = text[:_READ]
    if "10." in text:
        for match in _DOI.finditer(text):
            yield TextSource("doi", match[0].lower().rstrip(".,;:)/"))
    if "pmc" in text.lower():
        for match in _PMC.finditer(text):
            yield TextSource("pmc", match[1].lstrip("0"))
    if "://" in text:
        for match in _URL.finditer(text):
            address = match[0].rstrip(".,;:)/")
            rest, mark, query = address.partition("://")[2].partition("#")[0].partition("?")
            kept = "&".join(part for part in query.split("&") if not _CAMPAIGN.match(part))
            rest = f"{rest}{mark}{kept}" if kept else rest.rstrip("/")
            host, slash, path = rest.partition("/")
            if path:  # a host alone says where thousands of things come from
                yield TextSource("url", host.lower().removeprefix("www.") + slash + path)


def file_source(name: str) -> TextSource | None:
    """A file name that can be recognised elsewhere: "synpic54610", not "source" or "image12".

    Nine digits alone are the running number of an archive's member, in every archive there is.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].partition("?")[0]
    stem = _ENDING.sub("", last).lower()
    digits = sum(character.isdigit() for character in stem)
    if digits < _TELLING or len(stem) < 8 or (digits == len(stem) and digits < 10):
        return None
    return TextSource("file", stem)


def example_sources(example: Example) -> set[TextSource]:
    texts = [*_strings(example.metadata), example.question or "", example.answer or ""]
    return _collect(texts, example.images) | named_sources(example.metadata)


def item_sources(item: CorpusItem) -> set[TextSource]:
    texts = [*_strings(item.metadata), item.text or "", item.question or ""]
    images = (item.image,) if item.image is not None else ()
    return _collect(texts, images) | named_sources(item.metadata)


#: columns, without case and marks, that name a patient, a study or a series
_NAMED = {
    "patientid": "patient",
    "subjectid": "patient",
    "studyid": "study",
    "studyuid": "study",
    "studyinstanceuid": "study",
    "seriesid": "series",
    "seriesuid": "series",
    "seriesinstanceuid": "series",
}


def named_sources(metadata: Mapping[str, Any]) -> set[TextSource]:
    """Patients, studies and series with an id that can be recognised elsewhere: not "patient 17"."""
    sources = set()
    for key, value in metadata.items():
        kind = _NAMED.get(re.sub(r"[^a-z]", "", key.lower()))
        name = str(value).strip().lower() if kind and value is not None else ""
        if kind and sum(character.isdigit() for character in name) >= _TELLING:
            sources.add(TextSource(kind, name))
    return sources


class ProvenanceIndex:
    """Ids of benchmark items; an id that too many of them carry identifies nothing."""

    def __init__(self, sources_of: Sequence[set[TextSource]], clusters: Sequence[str]) -> None:
        by_source: dict[TextSource, list[int]] = {}
        for position, sources in enumerate(sources_of):
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

    def find(self, item: CorpusItem) -> Iterator[tuple[TextSource, tuple[int, ...]]]:
        if self.by_source:
            for source in sorted(item_sources(item)):
                if source in self.by_source:
                    yield source, self.by_source[source]


def _collect(texts: Sequence[str], images: Sequence[ImageRef]) -> set[TextSource]:
    sources = {source for text in texts if text for source in sources_in(text)}
    for ref in images:
        sources.update(sources_in(ref.name))
        if (source := file_source(ref.name)) is not None:
            sources.add(source)
        sources |= named_sources({f"{kind}_id": name for kind, name in dicom_ids(ref).items()})
    return sources


def _strings(metadata: Mapping[str, Any]) -> Iterator[str]:
    for column, value in itertools.islice(_words_in(metadata), _COLUMNS):
        yield value
        if "pmc" in column.lower() and value.strip().isdigit():
            yield f"PMC{value.strip()}"
