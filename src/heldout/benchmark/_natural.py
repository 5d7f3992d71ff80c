"""NaturalBench: two images and two questions per row; each question has a different answer on each image.

Read whole, a row is four items. Read by arm (``nb.parquet#arm=original``, ``#arm=twin``), it is two: the
same two questions under the same ids, once on image 0 and once on image 1, so that the second arm is a
ready-made twin of the first. Both are photographs; which one is called original is a convention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from heldout.benchmark.benchmark import normal
from heldout.benchmark.readers import FileRow
from heldout.errors import InputError
from heldout.store import Dropped

ARMS = {"original": 0, "twin": 1}
_COLUMNS = ("Image_0", "Image_1", "Question_0", "Question_1")
_OF_ITEM = re.compile(r"(Image|Question)_[01]")


def is_group(values: Mapping[str, Any]) -> bool:
    """Whether a row holds two images and two questions."""
    return all(column in values for column in _COLUMNS)


def natural_bench(rows: Iterator[FileRow | Dropped]) -> Iterator[FileRow | Dropped]:
    """Each row as four that share its Index; a row that is one item already stays as it is."""
    number = 0
    for row in rows:
        if isinstance(row, Dropped):
            yield row
        elif not is_group(row.values):
            number += 1
            yield FileRow(number, row.values)
        else:
            for question in (0, 1):
                for image in (0, 1):
                    number += 1
                    yield FileRow(number, _item(row, image, question))


def natural_twins(
    rows: Iterator[FileRow | Dropped], arm: str, *, apart: bool
) -> Iterator[FileRow | Dropped]:
    """Each row as the two items of one arm. ``apart``: numbered as ``natural_bench`` numbers them, not
    by the row of the file."""
    if arm not in ARMS:
        raise InputError(f"#arm={arm}: expected one of {', '.join(ARMS)}")
    before = 0  # items of the rows so far
    for row in rows:
        if isinstance(row, Dropped):
            yield row
            continue
        if not is_group(row.values):
            listed = ", ".join(row.values)
            message = f"expected {', '.join(_COLUMNS)}; found {listed:.120}"
            yield Dropped("read", f"row {row.number}", "no pair of images", message)
            before += 1
            continue
        for question in (0, 1):
            values = _item(row, ARMS[arm], question)
            values["id"] = f"{values['Index']}-q{question}"
            answers = [_item(row, image, question)["answer"] for image in (0, 1)]
            if None in answers or normal(str(answers[0])) == normal(str(answers[1])):
                message = f"{values['question']!r:.120}: {answers[0]!r} and {answers[1]!r}"
                yield Dropped("read", str(values["id"]), "no twin", message)
                continue
            number = before + 2 * question + ARMS[arm] + 1
            yield FileRow(number if apart else row.number, values)
        before += 4


def _item(row: FileRow, image: int, question: int) -> dict[str, Any]:
    index = row.values.get("Index", row.number)
    text = row.values.get(f"Question_{question}")
    return {
        **{name: value for name, value in row.values.items() if not _OF_ITEM.match(name)},
        "Index": index,
        "id": f"{index}_image{image}_question{question}",
        "image": row.values.get(f"Image_{image}"),
        "question": text,
        "answer": row.values.get(f"Image_{image}_Question_{question}"),
    }


# Rows whose answer has another form.


def joined_labels(rows: Iterator[FileRow | Dropped]) -> Iterator[FileRow | Dropped]:
    """Open Images: the labels people confirmed, as one answer."""
    for row in rows:
        labels = row.values.get("labels") if isinstance(row, FileRow) else None
        if isinstance(row, FileRow) and isinstance(labels, list):
            names = [label for label in map(_confirmed, labels) if label]
            yield FileRow(row.number, {**row.values, "answer": ", ".join(names) or None})
        else:
            yield row


def _confirmed(label: Any) -> str | None:
    if isinstance(label, dict):
        confidence = label.get("confidence")
        denied = isinstance(confidence, int | float) and confidence <= 0
        return None if denied else str(label.get("label") or "") or None
    return str(label) if label else None
