"""Which column is the question and which the answer: by common names, or as the user says."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.errors import InputError

FIELDS = ("id", "image", "question", "options", "answer", "cluster")
# Common names of each field, compared without case; the first present wins.
_NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "qid", "question_id", "questionid", "uid", "index", "idx", "pid", "sample_id"),
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
        "answers",
        "gold",
        "label",
        "target",
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
KEY_NAMES = ("answerkey", "answer_key", "gt", "cop")  # ARC, evaluation scripts, MedMCQA


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
    return columns


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
            hint = f"; did you mean '{near[0]}'?" if near else ""
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
