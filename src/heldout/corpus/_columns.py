"""Which columns of a corpus row are text, question, answer, image, and what they say.

A benchmark calls a caption its answer; for a corpus it is text. All other names of columns are those of
``benchmark.fields``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heldout.benchmark import FieldMap, ImageFinder, canonical_value
from heldout.corpus.corpus import CorpusItem, Place
from heldout.errors import HeldoutError, blame_the_machine
from heldout.image import ImageRef
from heldout.store import FAILED, OUT_OF_MEMORY, Dropped

_TEXT = (
    "text",
    "caption",
    "captions",
    "alt",
    "alt_text",
    "alttext",
    "description",
    "abstract",
    "content",
    "contents",
    "raw_content",
    "body",
    "passage",
    "paragraph",
    "document",
    "article",
)
_ANSWERS = ("output", "response", "completion")  # of instruction data, where no answer is there
_TALK = ("conversations", "conversation", "messages", "texts", "dialog", "dialogue")
_KEYS = ("key", "image_id", "img_id", "uid")  # ids of a corpus, where no id column is there
_ASKING = ("human", "user")
_ANSWERING = ("gpt", "assistant", "model", "bot")


@dataclass(frozen=True, slots=True)
class Words:
    text: str | None = None
    question: str | None = None
    answer: str | None = None
    also: tuple[tuple[str | None, str], ...] = ()  # later turns, and other accepted answers

    def item(
        self, name: str, image: ImageRef | None, metadata: Mapping[str, Any], place: Place
    ) -> CorpusItem:
        return CorpusItem(
            name, image, self.text, self.question, self.answer, metadata, self.also, place
        )


@dataclass(frozen=True, slots=True)
class CorpusColumns:
    """TableColumns of a row by what they mean; an empty tuple where there is none."""

    id: tuple[str, ...]
    image: tuple[str, ...]
    question: tuple[str, ...]
    answer: tuple[str, ...]
    text: tuple[str, ...]
    talk: tuple[str, ...]
    options: tuple[str, ...] = ()
    answer_is: str = "letter"  # how answers refer to options where they do not quote them

    def key(self, row: Mapping[str, Any]) -> str | None:
        return _joined(row, self.id)

    def words(self, row: Mapping[str, Any]) -> Words:
        question, text = _joined(row, self.question), _joined(row, self.text)
        answers = self._answers(row)
        pairs: list[tuple[str | None, str]] = [(question, answer) for answer in answers]
        if self.talk and (turns := list(_turns(row.get(self.talk[0])))):
            pairs += _exchanges(turns)
            question = question or next((s for who, s in turns if who in _ASKING), None)
            text = text or "\n".join(text_of_turn for _, text_of_turn in turns)
        if question is None and text is None:
            return Words("\n".join(answers) or None)  # an answer without a question is a caption
        if text is None:
            text = "\n".join(part for part in (question, *answers) if part) or None
        if not pairs:
            return Words(text, question)
        return Words(text, pairs[0][0] or question, pairs[0][1], tuple(pairs[1:]))

    def _answers(self, row: Mapping[str, Any]) -> list[str]:
        """Accepted answers; a letter or a position is replaced by its option."""
        answers: list[str] = []
        for column in self.answer:
            value = row.get(column)
            for part in value if isinstance(value, list | tuple) else (value,):
                fields = FieldMap({"options": self.options, "answer": (column,)}, self.answer_is)
                text = fields.answer({**row, column: part})
                if text and text.strip():
                    answers.append(text.strip())
        return list(dict.fromkeys(answers))


@functools.lru_cache(maxsize=512)
def find_columns(
    names: tuple[str, ...],
    mapping: tuple[tuple[str, str], ...] = (),
    where: str = "the corpus",
) -> CorpusColumns:
    """The meaning of the columns ``names``; ``mapping`` are the user's own field=column pairs, of which those count
    whose columns are there: a corpus may have several tables."""
    overrides = {field: columns for field, columns in mapping if _has(names, columns)}
    text = tuple(part.strip() for part in overrides.pop("text", "").split("+") if part.strip())
    fields = FieldMap.infer([dict.fromkeys(names)], overrides, "text", where).columns
    lowered = {name.lower(): name for name in reversed(names)}
    text = text or _first(lowered, _TEXT)
    answer = fields["answer"]
    if "answer" not in overrides and answer and answer[0].lower() in _TEXT:
        answer = ()
    return CorpusColumns(
        id=fields["id"] or _first(lowered, _KEYS),
        image=fields["image"],
        question=fields["question"],
        answer=answer or (_first(lowered, _ANSWERS) if fields["question"] else ()),
        text=text,
        talk=_first(lowered, _TALK),
        options=fields["options"],
    )


def _has(names: tuple[str, ...], columns: str) -> bool:
    return all(
        part.strip() in names or part.strip().startswith("column ") for part in columns.split("+")
    )


class TableColumns:
    """What the columns of a table mean; the first of its rows tell how answers refer to options."""

    def __init__(
        self, mapping: tuple[tuple[str, str], ...], answer_is: str, images: tuple[str, ...] = ()
    ) -> None:
        self.mapping, self.answer_is, self.images = mapping, answer_is, images

    @classmethod
    def of(
        cls,
        first: Sequence[Mapping[str, Any]],
        mapping: tuple[tuple[str, str], ...],
        images: tuple[str, ...] = (),
    ) -> TableColumns:
        """``images``: columns that hold pictures, whatever they are called."""
        columns = find_columns(tuple(dict.fromkeys(name for row in first for name in row)), mapping)
        if not (first and columns.options and columns.answer):
            return cls(mapping, "letter", images)
        fields = FieldMap({"options": columns.options, "answer": columns.answer, "image": ()})
        return cls(mapping, fields.answer_style(first), images)

    def named(self, values: Mapping[str, Any]) -> CorpusColumns:
        columns = find_columns(tuple(values), self.mapping)
        if self.images:
            columns = replace(columns, image=tuple(dict.fromkeys((*columns.image, *self.images))))
        return replace(columns, answer_is=self.answer_is) if columns.options else columns


def decode_words(data: bytes) -> str:
    """Text decoded as UTF-8, UTF-16 with a byte order mark, or Windows-1252."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _first(lowered: Mapping[str, str], wanted: Sequence[str]) -> tuple[str, ...]:
    return next(((lowered[name],) for name in wanted if name in lowered), ())


def _joined(row: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    parts: list[str] = []
    for column in columns:
        value = row.get(column)
        for part in value if isinstance(value, list | tuple) else (value,):
            if (text := canonical_value(part)) and (text := text.strip()):
                parts.append(text)
    return "\n".join(parts) or None


def _exchanges(turns: Sequence[tuple[str, str]]) -> Iterator[tuple[str | None, str]]:
    """Each answer with the question right before it."""
    question = None
    for who, words in turns:
        if who in _ASKING:
            question = words
        elif who in _ANSWERING:
            yield question, words


def _turns(value: Any) -> Iterator[tuple[str, str]]:
    """(speaker, words) of LLaVA conversations, chat messages or {user, assistant} pairs."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            yield "", value
            return
    for turn in value if isinstance(value, list | tuple) else ():
        if not isinstance(turn, Mapping):
            continue
        speaker = turn.get("from") or turn.get("role")
        spoken = (
            {str(speaker): turn.get("value") or turn.get("content")}
            if speaker
            else {who: turn[who] for who in (*_ASKING, *_ANSWERING) if who in turn}
        )
        for who, words in spoken.items():
            if isinstance(words, list | tuple):  # [{"type": "text", "text": …}, {"type": "image"}]
                words = " ".join(
                    str(p["text"]) for p in words if isinstance(p, Mapping) and p.get("text")
                )
            if words and (text := str(words).replace("<image>", "").strip()):
                yield who.lower(), text


def _shown(value: Any) -> Iterator[str]:
    """Pictures that chat messages hold or name; those of the web are not downloaded."""
    for turn in value if isinstance(value, list | tuple) else ():
        content = turn.get("content") if isinstance(turn, Mapping) else None
        for part in content if isinstance(content, list | tuple) else ():
            if isinstance(part, Mapping):
                place = part.get("image") or part.get("image_url") or part.get("path")
                place = place.get("url") if isinstance(place, Mapping) else place
                if isinstance(place, str) and not place.startswith(("http:", "https:")):
                    yield place


# img2dataset's download log: which rows of the list were never fetched, and why.


STATUS = "status"


def not_downloaded(row: Mapping[str, Any], item: str) -> Dropped | None:
    """The reason a logged row has no image, or None if it has one."""
    status = row.get(STATUS)
    if status is None or status == "success":
        return None
    facts = (str(status), row.get("error_message"), row.get("url"))
    return Dropped("corpus", item, "not downloaded", "; ".join(str(fact) for fact in facts if fact))


# Corpus items of one flat row, whatever kind of file holds it.


def row_items(
    row: Mapping[str, Any],
    item: str,
    origin: str,
    columns: CorpusColumns,
    finder: ImageFinder,
    place: Place,
) -> Iterator[CorpusItem | Dropped]:
    """One item per image of the row, or one without; further images are called ``<item>/k``."""
    words = columns.words(row)
    refs = [ref for column in columns.image for ref in finder.find(row.get(column), origin)]
    for column in columns.talk:
        refs += [ref for shown in _shown(row.get(column)) for ref in finder.find(shown, origin)]
    used = {*columns.image, *columns.talk}
    metadata = {key: value for key, value in row.items() if key not in used and value is not None}
    if columns.options:  # one list, also where every option has a column of its own
        metadata["options"] = list(FieldMap({"options": columns.options}).options(row))
    if not refs:
        failed = not_downloaded(row, item) if STATUS in row else None
        if failed is not None or (columns.image and words.text is None):
            yield failed or Dropped("corpus", item, "empty row", f"{origin}: no image and no text")
            return
    for k, ref in enumerate(refs or [None]):
        yield words.item(f"{item}/{k}" if k else item, ref, metadata, place)


def lost_row(origin: str, error: Exception) -> Dropped:
    """The reason why a row is left out, whatever went wrong with it; a full disk is raised again."""
    blame_the_machine(error)
    if isinstance(error, HeldoutError):
        return Dropped("corpus", origin, "no usable column", str(error))
    if isinstance(error, RecursionError):
        return Dropped("corpus", origin, "nested too deeply", "its values lie inside each other")
    if isinstance(error, MemoryError):
        return Dropped("corpus", origin, OUT_OF_MEMORY, "reading the row")
    return Dropped("corpus", origin, FAILED, f"{type(error).__name__}: {error}"[:500])
