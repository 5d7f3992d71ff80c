"""The fields of a row: which column is the question, the options, the answer, the images."""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from heldout.benchmark._option_list import take_list
from heldout.benchmark._option_values import (
    Choices,
    UnreadableOptionsError,
    labelled_with_gaps,
    parse_literal,
    read_options,
    take_unlettered,
    unlabelled,
)
from heldout.benchmark.benchmark import RELEASED, Example, canonical_value, normal
from heldout.benchmark.image_finder import ImageFinder
from heldout.errors import InputError
from heldout.image import HEAD, IMAGE_ENDINGS, ImageRef, looks_like_image

# Which column is the question and which the answer: by common names, or as the user says.


FIELDS = ("id", "image", "question", "options", "answer", "cluster")
# Common names of each field, compared without case; the first present wins.
_NAMES: dict[str, tuple[str, ...]] = {
    "id": (
        "id",
        "qid",
        "question_id",
        "questionid",
        "uid",
        "index",
        "idx",
        "pid",
        "sample_id",
        "task_id",
    ),
    "image": (
        "image",
        "images",
        "img",
        "image_path",
        "img_path",
        "image_name",
        "img_name",
        "image_file",
        "figure_path",
        "filename",
        "file_name",
        "jpg",
        "png",
        "jpeg",
        "webp",
        "image_bytes",
    ),
    "question": ("question", "query", "prompt", "q", "instruction", "problem"),
    "options": ("options", "choices", "candidates", "multi-choice options"),
    "answer": (
        "answer",
        "gt_answer",
        "gold_answer",
        "correct_answer",
        "multiple_choice_answer",  # of VQA v2, beside the ten answers it is the commonest of
        "answers",
        "gold",
        "label",
        "target",
        "final_answer",
        "ground_truth",
        "solution",
        "canonical_solution",
        "caption",
        "captions",
    ),
    "cluster": (
        "cluster",
        "patient_id",
        "patientid",
        "subject_id",
        "study_id",
        "studyinstanceuid",
        "case_id",
        "series_id",
        "seriesinstanceuid",
        "volume_id",
        "slide_id",
    ),
}
OPTION_NAMES = frozenset(_NAMES["options"])
ANSWER_NAMES = frozenset(_NAMES["answer"])
_NUMBERED_IMAGE = re.compile(r"(?:image|img)[_ -]?(\d+)", re.IGNORECASE)
_OPTION_COLUMN = re.compile(r"(?:option[_ -]?|choice[_ -]?|op)?([a-j])", re.IGNORECASE)
NUMBERED_OPTION = re.compile(r"(opt|option|choice)[_ -]?(\d|10)", re.IGNORECASE)
KEY_NAMES = (  # ARC, evaluation scripts, MedMCQA, WorldMedQA, MMVP, A-OKVQA
    *("answerkey", "answer_key", "gt", "cop", "correct_option", "correct answer", "correct_choice"),
    "correct_choice_idx",
)


def columns_by_field(
    rows: Sequence[Mapping[str, Any]], overrides: Mapping[str, str], where: str
) -> dict[str, tuple[str, ...]]:
    """The columns of every field of ``rows``; ``overrides`` are those that the user named."""
    present = list(dict.fromkeys(column for row in rows for column in row))
    columns: dict[str, tuple[str, ...]] = {}
    for field, value in overrides.items():
        columns[field] = _override(field, value, present, where)
    by_place = {
        column
        for field, value in overrides.items()
        for column, name in zip(columns[field], value.split("+"), strict=True)
        if column != name.strip()
    }  # a column that the user named by its place loses its guessed meaning
    lowered = {column.lower(): column for column in reversed(present) if column not in by_place}
    for field in FIELDS:
        if field in columns:
            continue
        named = [lowered[name] for name in _NAMES[field] if name in lowered]
        if field == "image":
            numbered = [c for c in present if _NUMBERED_IMAGE.fullmatch(c)]
            numbered.sort(key=lambda c: int(_digits(c)))
            columns[field] = tuple(numbered) if numbered else tuple(named[:1])
        elif field == "options" and not named:
            columns[field] = _option_columns(list(lowered.values())[::-1])
        else:
            columns[field] = tuple(named[:1])
    for field, others in _by_other_names(columns, lowered).items():
        if field not in overrides:
            columns[field] = others
    used = {column for named in columns.values() for column in named}
    free = [column for column in present if column not in used]
    if not columns["image"]:
        columns["image"] = tuple(c for c in free if _mostly(rows, c, _is_picture))[:1]
    if columns["options"] and not columns["answer"]:
        keys = (
            c for c in free if c not in columns["image"] and _refers(rows, c, columns["options"])
        )
        columns["answer"] = tuple(keys)[:1]
    return columns


# What a column holds, where its name says nothing


_MOST = 0.8  # of the cells of a column


def _mostly(rows: Sequence[Mapping[str, Any]], column: str, fits: Callable[[Any], bool]) -> bool:
    cells = [row[column] for row in rows if row.get(column)]
    return bool(cells) and sum(map(fits, cells)) >= _MOST * len(cells)


def _is_picture(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.startswith("data:image/") or (
            "\n" not in cell and PurePath(cell).suffix.lower() in IMAGE_ENDINGS
        )
    if isinstance(cell, bytes):
        return looks_like_image(cell[:HEAD])
    return isinstance(cell, ImageRef)


def _refers(rows: Sequence[Mapping[str, Any]], column: str, options: tuple[str, ...]) -> bool:
    """Does every cell name an option, by a letter, by its place or by its words, and not always the same?"""
    choices = FieldMap({"options": options})
    cells = [(text, choices.choices(row)) for row in rows if (text := _text(row.get(column)))]
    places = [
        [_position(text, offered, style) for style in ("letter", FROM_ONE, "index", "text")]
        for text, offered in cells
    ]
    return len({text for text, _ in cells}) > 1 and any(
        all(place[style] is not None for place in places) for style in range(4)
    )


def _by_other_names(
    columns: Mapping[str, tuple[str, ...]], lowered: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Fields under names that mean them only beside others: LLaVA's, Alpaca's, and single letters."""
    by_field: dict[str, tuple[str, ...]] = {}
    question, answer = columns["question"], columns["answer"]
    if not answer:
        own = ("output", "ans", "a") if question or "text" in lowered else ("ans",)
        names = (*own, *KEY_NAMES)
        named = [lowered[name] for name in names if name in lowered]
        answer = tuple(name for name in named if name not in columns["options"])[:1]
        by_field["answer"] = answer
    if not question and "text" in lowered and (answer or "question_id" in lowered):
        by_field["question"] = (lowered["text"],)  # without either it is a caption
    if question and question[0].lower() == "instruction" and "input" in lowered:
        by_field["question"] = (*question, lowered["input"])
    return by_field


def _override(field: str, value: str, present: Sequence[str], where: str) -> tuple[str, ...]:
    if field not in FIELDS:
        raise InputError(f"mapping {field}={value}: the fields are {', '.join(FIELDS)}")
    columns = tuple(_by_place(part.strip(), present) for part in value.split("+"))
    for column in columns:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise InputError(
                f"mapping {field}={value}: {where} has no column '{column}'{hint} "
                f"It has: {', '.join(present)}"
            )
    return columns


def _by_place(column: str, present: Sequence[str]) -> str:
    """The column called so, or the one at the place: "column 3", whatever it is called."""
    place = re.fullmatch(r"column (\d{1,4})", column)
    if column in present or place is None or not 0 < int(place[1]) <= len(present):
        return column
    return present[int(place[1]) - 1]


def _option_columns(present: Sequence[str]) -> tuple[str, ...]:
    """Columns A, B, C, … (or option_a, …) that form an unbroken run from A, at least two."""
    letters = {m[1].upper(): c for c in present if (m := _OPTION_COLUMN.fullmatch(c))}
    run: list[str] = []
    for letter in "ABCDEFGHIJ":
        if letter not in letters:
            break
        run.append(letters[letter])
    if len(run) >= 2:
        return tuple(run)
    for stem in ("option", "opt", "choice"):  # option1, option2, …
        numbered = {
            int(m[2]): c
            for c in present
            if (m := NUMBERED_OPTION.fullmatch(c)) and m[1].lower() == stem
        }
        first = 0 if 0 in numbered else 1
        run = [numbered[k] for k in range(first, first + len(numbered)) if k in numbered]
        if len(run) >= 2 and len(run) == len(numbered):
            return tuple(run)
    return ()


def _digits(column: str) -> str:
    match = _NUMBERED_IMAGE.fullmatch(column)
    return match[1] if match else "0"


def is_field_name(name: str) -> bool:
    """Whether a column of this name would be read as a field of an item."""
    lowered = name.lower()
    return any(lowered in names for names in _NAMES.values())


_INSTRUCTIONS = ("instruction", "text")  # they may hold the tag of the image
_IMAGE_TAG = re.compile(r"<image>\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTED_LIST = re.compile(r"\[\s*['\"{].*['\"}]\s*\]", re.DOTALL)
_LABELLED = re.compile(r"\(?([A-Za-z]|\d{1,2})\)?\s*[.:)]\s*(\S.*)", re.DOTALL)


FROM_ONE = "index from 1"


@dataclass(frozen=True)
class FieldMap:
    """Columns per field. ``answer_is``: how the answer column refers to the options."""

    columns: Mapping[str, tuple[str, ...]]
    #: "letter", "text", "index", "index from 1", or "auto" until rows were seen
    answer_is: str = "auto"
    gaps: bool = (
        False  # options such as "A. CT", "B. MRI", "D. US", where keys show that D is the third
    )

    @classmethod
    def infer(
        cls,
        rows: Sequence[Mapping[str, Any]],
        overrides: Mapping[str, str] | None = None,
        answer_is: str = "auto",
        where: str = "the data",
    ) -> FieldMap:
        """The map that fits the first ``rows`` of a file; ``overrides`` are the user's columns."""
        mapped = cls(columns_by_field(rows, overrides or {}, where), answer_is)
        mapped = replace(mapped, gaps=any(mapped._needs_gaps(row) for row in rows))
        return (
            replace(mapped, answer_is=mapped.answer_style(rows)) if answer_is == "auto" else mapped
        )

    def example(
        self, row: Mapping[str, Any], number: int, origin: str, finder: ImageFinder
    ) -> Example:
        """The Example of one flat row; columns without a field stay as metadata.

        UnreadableOptionsError where the row offers options that cannot be read.
        """
        row = {key: _sound(value) for key, value in row.items()}
        used = {column for columns in self.columns.values() for column in columns}
        # Of several accepted answers (captions) or phrasings the first one counts; none is lost.
        listed = (*self.columns.get("answer", ()), *self.columns.get("question", ()))
        used -= {column for column in listed if _several(_accepted(row.get(column)))}
        # A value that cannot be an answer (Infinity) is not read as one, and stays in the metadata.
        used -= {column for column in listed if _infinite(row.get(column))}
        # A cluster column is also data: keep it visible in the metadata.
        used -= set(self.columns.get("cluster", ()))
        try:
            question, choices = self._asked(row)
        except UnreadableOptionsError as error:
            column = " + ".join(self.columns["options"])
            raise UnreadableOptionsError(
                error.reason, f"column {column}: {error.detail}"
            ) from error
        if not choices:  # "n/a" offers no options, and stays in the metadata
            used -= set(self.columns.get("options", ()))
        answer, answer_index = self._answer(row, choices)
        images = tuple(
            ref for column in self.columns["image"] for ref in finder.find(row.get(column), origin)
        )
        metadata = {
            key: _named(value)
            for key, value in row.items()
            if key not in used and not (key in self.columns.get("options", ()) and _empty(value))
        }
        written = _text(self._first(row, "question"))
        if question != written:
            metadata.setdefault(RELEASED, written)
        return Example(
            id=_text(self._first(row, "id")) or str(number),
            images=images,
            question=question,
            options=choices.texts,
            answer=answer,
            answer_index=answer_index,
            cluster=_text(self._first(row, "cluster")),
            metadata=metadata,
            origin=origin,
            key=_text(self._first(row, "answer")),
        )

    def answer(self, row: Mapping[str, Any]) -> str | None:
        """The answer's text, a letter or a position replaced by its option."""
        return self._answer(row, self.choices(row))[0]

    def options(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The options of one row, also if the question lists them; none if they cannot be read."""
        return self.choices(row).texts

    def _first(self, row: Mapping[str, Any], field: str) -> Any:
        columns = self.columns.get(field, ())
        if field == "question" and columns and columns[0].lower() in _INSTRUCTIONS:
            parts = [_text(row.get(column)) for column in columns]
            return " ".join(_IMAGE_TAG.sub("", part).strip() for part in parts if part) or None
        return row.get(columns[0]) if columns else None

    def choices(self, row: Mapping[str, Any]) -> Choices:
        try:
            return self._asked(row)[1]
        except UnreadableOptionsError:
            return Choices()

    def _asked(self, row: Mapping[str, Any]) -> tuple[str | None, Choices]:
        """The question without what it says about options and answering, and the options."""
        columns = self.columns.get("options", ())
        if len(columns) > 1:  # one column per option: A, B, C, D; unused ones are empty
            choices = unlabelled([_text(row.get(column)) for column in columns])
            numbers = [m[2] for c in columns if (m := NUMBERED_OPTION.fullmatch(c))]
            if not choices.labels and len(numbers) == len(columns):
                choices = Choices(choices.texts, tuple(numbers[: len(choices.texts)]))
        else:
            choices = read_options(row.get(columns[0]) if columns else None)
        if self.gaps:
            choices = labelled_with_gaps(choices) or choices
        question = _text(self._first(row, "question"))
        if question is None:
            return None, choices
        answer = _text(self._first(row, "answer"))
        stem, listed = take_list(question, choices.texts, answer)
        if not choices and listed is None:
            stem, listed = take_unlettered(stem, answer)
        if not choices and listed is not None:
            choices = Choices(listed.options, listed.labels)
        return stem, choices

    def _needs_gaps(self, row: Mapping[str, Any]) -> bool:
        """Whether the key is a letter that only the options' own letters explain: "D" of three."""
        text = _text(self._first(row, "answer"))
        choices = self.choices(row) if text else Choices()
        named = labelled_with_gaps(choices)
        return (
            text is not None
            and named is not None
            and _position(text, choices, "letter") is None
            and _position(text, named, "letter") is not None
        )

    def _answer(self, row: Mapping[str, Any], choices: Choices) -> tuple[str | None, int | None]:
        value = self._first(row, "answer")
        if not choices or isinstance(value, list | tuple):
            value = _accepted(value)
        if isinstance(value, list | tuple):  # several accepted answers, or one in a list
            value = value[0] if value else None
        text = _text(value)
        if text is None or not choices:
            return text, None
        styles = dict.fromkeys([self.answer_is, "text", "letter", "index", "letter and text"])
        if self.answer_is == FROM_ONE:
            del styles["index"]
        for style in styles:
            index = _position(text, choices, style)
            if index is not None:
                return choices.texts[index], index
        return text, None

    def answer_style(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """Letters, option texts or positions? Decided over many rows, since one row can fit two."""
        pairs = [
            (text, choices)
            for row in rows
            if (text := _text(self._first(row, "answer"))) and (choices := self.choices(row))
        ]
        fits = {
            style: sum(_position(text, choices, style) is not None for text, choices in pairs)
            for style in ("letter", "text", "index")
        }
        best = max(fits, key=lambda style: fits[style]) if pairs else "text"
        return FROM_ONE if best == "index" and _counts_from_one(pairs) else best


def _counts_from_one(pairs: Sequence[tuple[str, Choices]]) -> bool:
    """Positions that never are 0, and reach the number of options."""
    numbers = [
        (int(text), len(choices.texts))
        for text, choices in pairs
        if re.fullmatch(r"[0-9]{1,3}", text.strip())
    ]
    return all(number > 0 for number, _ in numbers) and any(
        number == count for number, count in numbers
    )


def _position(text: str, choices: Choices, style: str) -> int | None:
    stripped = text.strip()
    if len(stripped) <= 4 and not stripped.isascii() and style != "text":
        stripped = unicodedata.normalize("NFKC", stripped)  # "Ｂ", "（Ｂ）", "２"
    index: int | None = None
    if style == "text":
        folded = [option.strip().casefold() for option in choices.texts]
        index = folded.index(stripped.casefold()) if stripped.casefold() in folded else None
    elif style == "letter" and (match := re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", stripped)):
        index = choices.place(match[1], ord(match[1].upper()) - ord("A"))
    elif style in ("index", FROM_ONE) and re.fullmatch(r"[0-9]{1,3}", stripped):
        index = choices.place(stripped, int(stripped) - (style == FROM_ONE))
    elif style == "letter and text" and (match := _LABELLED.fullmatch(stripped)):
        number = int(match[1]) - 1 if match[1].isdecimal() else ord(match[1].upper()) - ord("A")
        place = choices.place(match[1], number)
        same = place is not None and 0 <= place < len(choices.texts)
        index = place if same and normal(choices.texts[place or 0]) == normal(match[2]) else None
    return index if index is not None and 0 <= index < len(choices.texts) else None


def _accepted(value: Any) -> Any:
    """Accepted answers as a list, also where they are written as one, "['3', 'three']", or as
    VQA v2 has them, [{"answer": "3", "answer_id": 1}, …]."""
    if isinstance(value, list | tuple):
        return [_given(part) for part in value]
    if not isinstance(value, str) or not _QUOTED_LIST.fullmatch(value.strip()):
        return value
    try:
        listed = parse_literal(value.strip())
    except UnreadableOptionsError:
        return value
    listed = [_given(part) for part in listed] if isinstance(listed, list) else []
    return listed if listed and all(isinstance(part, str) for part in listed) else value


def _given(part: Any) -> Any:
    return part["answer"] if isinstance(part, Mapping) and "answer" in part else part


def also_right(example: Example) -> tuple[str, ...]:
    """Further accepted answers of an open question, from the metadata.

    In a list with repeats (ten people asked once each) three have to agree, as in the metric of VQA v2.
    An answer that is not the list's first came from elsewhere: a twin's, or a file's.
    """
    for column, value in example.metadata.items():
        listed = _accepted(value) if column.lower() in ANSWER_NAMES else ()
        texts = [text for part in listed if (text := _text(part))] if _several(listed) else []
        if texts and texts[0] == example.answer and not example.options:
            votes = Counter(texts)
            enough = 1 if len(votes) == len(texts) else 3
            return tuple(text for text in votes if text != texts[0] and votes[text] >= enough)
    return ()


def _several(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 1


def _empty(value: Any) -> bool:
    return canonical_value(value) in (None, "[]", "{}")


def _sound(value: Any) -> Any:
    """Text without lone surrogates, which JSON can spell but no file can hold."""
    if isinstance(value, str):
        broken = not value.isascii() and _SURROGATE.search(value)
        return _SURROGATE.sub("\ufffd", value) if broken else value
    if isinstance(value, list):
        return [_sound(part) for part in value]
    if isinstance(value, dict):
        return {_sound(key): _sound(part) for key, part in value.items()}
    return value


def _named(value: Any) -> Any:
    """An image in a column that is not the question's: its name, never its place here."""
    if isinstance(value, ImageRef):
        return value.name
    if isinstance(value, list):
        return [_named(part) for part in value]
    return value


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        value = _given(value[0]) if value else None
    if _infinite(value):
        return None
    return canonical_value(value)
