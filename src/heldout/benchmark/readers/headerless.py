"""Delimited files without a line of column names: what each column is, read off what it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from heldout.benchmark.fields import is_field_name
from heldout.image import IMAGE_ENDINGS

_MOST = 0.8  # of the cells of a column
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_KEY = re.compile(r"[A-Ja-j]|\d")
_LONG = 60  # characters; names of columns are shorter


def has_names(first: Sequence[str]) -> bool:
    """Whether the first record names columns. It does not only if a field cannot be a name."""
    # A single letter may be the name of a column or the key of a question.
    if any(is_field_name(cell.strip()) for cell in first if len(cell.strip()) > 1):
        return True
    return not any(_is_data(cell.strip()) for cell in first)


def are_positions(first: Sequence[str]) -> bool:
    """0, 1, 2, …: what a data frame without names writes in place of them."""
    return [cell.strip() for cell in first] == [str(place) for place in range(len(first))]


def _is_data(cell: str) -> bool:
    sentence = len(cell.split()) > 2 and cell.endswith(("?", ".", "!"))
    return is_image_name(cell) or bool(_NUMBER.fullmatch(cell)) or sentence or len(cell) > _LONG


def is_image_name(cell: str) -> bool:
    """A file name or an address of an image, or an image itself."""
    if cell.startswith("data:image/") or _URL.fullmatch(cell):
        return True
    return "\n" not in cell and PurePath(cell).suffix.lower() in IMAGE_ENDINGS


def column_names(
    rows: Sequence[Sequence[str]], shows_image: Callable[[str], bool] = is_image_name
) -> list[str]:
    """Names for the columns of ``rows``: image, id, question, answer, and 'column 4' for the others.

    A last column of single letters is the key of the columns between it and the question: options.

    Of columns of words the one with question marks is the question, else the first of several; the
    next one is the answer. A single column of words without question marks holds captions: answers.
    """
    width = max((len(row) for row in rows), default=0)
    cells = [[row[k].strip() for row in rows if k < len(row)] for k in range(width)]
    names = [f"column {k + 1}" for k in range(width)]
    free = [k for k in range(width) if any(cells[k])]

    def take(name: str, fits: Callable[[list[str]], bool]) -> int | None:
        for k in free:
            if fits(cells[k]):
                free.remove(k)
                names[k] = name
                return k
        return None

    # A number may be the name of a file; but a column of names with endings comes first.
    if take("image", lambda column: _most(column, is_image_name)) is None:
        take("image", lambda column: _most(column, shows_image))
    keyed = _keyed(cells, free)
    if keyed:
        free = [k for k in free if k < keyed[0]]
        names[keyed[-1]] = "answer"
        for letter, k in zip("ABCDEFGHIJ", keyed, strict=False):
            if k != keyed[-1]:
                names[k] = f"option {letter}"
    if len(free) > 1:
        take("id", lambda column: _distinct(column) and _most(column, _is_token))
    question = take("question", lambda column: _most(column, lambda cell: cell.endswith("?"), 0.5))
    if question is None and (len(free) > 1 or keyed):
        question = take("question", lambda column: True)
    free[:] = [k for k in free if question is None or k > question] + [
        k for k in free if question is not None and k < question
    ]
    if not keyed:
        take("answer", lambda column: True)
    if "image" not in names:  # names of pictures without an ending, which may lie elsewhere
        take("image", lambda column: _most(column, _is_token))
    return names


def _keyed(cells: Sequence[Sequence[str]], free: Sequence[int]) -> list[int]:
    """The columns of the options and behind them that of the key; none where nothing shows them."""
    if len(free) < 4 or not cells[free[-1]]:
        return []
    key = free[-1]
    if not all(_KEY.fullmatch(cell) for cell in cells[key]):
        return []
    question = next(
        (k for k in free if _most(cells[k], lambda cell: cell.endswith("?"), 0.5)),
        next((k for k in free if not _most(cells[k], _is_token)), key),
    )
    options = [k for k in free if question < k < key]
    last = max(
        int(cell) - 1 if cell.isdecimal() else ord(cell.upper()) - ord("A") for cell in cells[key]
    )
    told_apart = all(
        len(set(filled)) == len(filled)
        for row in zip(*(cells[k] for k in options), strict=False)
        if (filled := [cell.casefold() for cell in row if cell])
    )
    # One letter in every row is a mark of the file rather than a key.
    varied = len(cells[key]) < 3 or len({cell.upper() for cell in cells[key]}) > 1
    fits = 2 <= len(options) <= 10 and last < len(options)
    return [*options, key] if fits and told_apart and varied else []


def taken_for(names: Sequence[str]) -> str:
    """What each column was taken for, in one line."""
    return ", ".join(
        f"column {k}: {'metadata' if name.startswith('column ') else name}"
        for k, name in enumerate(names, 1)
    )


def _most(column: Sequence[str], fits: Callable[[str], bool], share: float = _MOST) -> bool:
    filled = [cell for cell in column if cell]
    return bool(filled) and sum(map(fits, filled)) >= share * len(filled)


def _distinct(column: Sequence[str]) -> bool:
    return len(set(column)) == len(column)


def _is_token(cell: str) -> bool:
    """One word with a digit in it: an id, and no answer such as 'yes'."""
    return not any(c.isspace() for c in cell) and any(c.isdigit() for c in cell)
