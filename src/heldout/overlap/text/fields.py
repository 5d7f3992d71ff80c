"""The texts of a benchmark item and of a corpus item, field by field."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heldout.benchmark import Example
from heldout.benchmark.example import RELEASED
from heldout.benchmark.normal import normal
from heldout.corpus import CorpusItem
from heldout.overlap.text.normalise import options_key, options_text, strict

LONGEST = 1_000_000  # characters of one text that are read; what follows is dropped with a reason

_TEXT = ("text", "caption", "description", "abstract", "content", "body")
_SENTENCE, _LETTERS = 5, 12  # words, or letters without spaces, from which on an answer is a text
_NUMBER = re.compile(r"(?:q(?:uestion)?\s*)?\(?\d{1,4}\s*[.):]\s+(?=\S)", re.IGNORECASE)

# Which corpus field a benchmark field is compared with as a whole. Containment asks all of them.
COMPARABLE: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "text"),
    "question+options": ("question+options", "question", "text"),
    "options": ("options",),
    "caption": ("text",),
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
        tuple((field, text[:LONGEST]) for field, text in fields),
        _answer_key(example.answer or "") if question else "",
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

    @property
    def cut(self) -> bool:
        return len(self.text) > LONGEST


def document_texts(item: CorpusItem) -> Iterator[Document]:
    """Questions of an item with their answers, then its free text where that is something else."""
    options = _options(item.metadata)
    key = options_key(options) if options else ""
    pictured = item.image is not None
    image = _file_name(item.image.name) if item.image is not None else ""
    asked: dict[str, list[str]] = {}
    for question, answer in ((item.question, item.answer), *item.also):
        if question:
            asked.setdefault(unnumbered(question), []).append(_answer_key(answer or ""))
    for question, answers in asked.items():
        known = tuple(dict.fromkeys(answer for answer in answers if answer))
        yield Document(item.id, "question", question, known, key, image, pictured)
        if options:
            both = f"{question} {options_text(options)}"
            yield Document(item.id, "question+options", both, known, key, image, pictured)
    if options:
        yield Document(item.id, "options", options_text(options), (), key, image, pictured)
    for text in _free_texts(item):
        yield Document(item.id, "text", text, (), "", image, pictured)


@functools.lru_cache(maxsize=2**14)
def _answer_key(answer: str) -> str:
    """The same on both sides: "<i>cyst</i>" is "cyst" in a benchmark and in a corpus."""
    return normal(strict(answer))


def _free_texts(item: CorpusItem) -> Iterator[str]:
    """Text that is not just the questions again: readers join those where an item has no other."""
    said = [(item.question, item.answer), *item.also]
    answers = [answer for _, answer in said if answer and _says_much(answer)]
    yield from dict.fromkeys(answers)  # "Describe the image." is answered by a whole caption
    known = [part for pair in said for part in pair if part and part.strip()]
    if item.text and (not known or _says_much(_without(item.text, known))):
        yield item.text
    for column in _TEXT:  # a table keeps columns that are no question and no answer as metadata
        text = item.metadata.get(column)
        if isinstance(text, str) and text.strip() and text != item.text:
            yield text


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
    found = _NUMBER.match(question)
    return question[found.end() :] if found else question


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
