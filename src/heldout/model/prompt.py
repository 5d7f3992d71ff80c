"""From a benchmark's item to what a model reads: pictures, then the question as released, then the answer.

Nothing is added to the item's own words: an instruction ("answer briefly") would be one more thing that
models understand differently. Options are not listed: a listed answer is copied, not remembered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heldout.image import ImageRef
from heldout.model.request import Request, Text

if TYPE_CHECKING:  # scoring runs where the benchmark's own readers are not installed
    from heldout.benchmark import Example

# Part of every score's identity. Raise it with any change of what a model reads.
TEMPLATE = "heldout-question/1"

# Where a release says its pictures stand: <image>, <image 2>, <image_2>.
_MARKER = re.compile(r"<image(?:[ _]?(\d{1,3}))?>")


def is_picture(text: str) -> bool:
    """Whether a text is nothing but the mark of a picture."""
    return _MARKER.fullmatch(text.strip()) is not None


def question_request(
    example: Example, *, with_image: bool = True, with_question: bool = True
) -> Request:
    """The item's answer after its pictures and question. An ablation leaves one of them out."""
    return _request(
        example, example.id, example.answer, with_image=with_image, with_question=with_question
    )


def option_requests(example: Example) -> list[Request]:
    """Every option in the place of the answer; ids end in ``#option0``, ``#option1``, …"""
    return [
        _request(example, f"{example.id}#option{number}", option)
        for number, option in enumerate(example.options)
    ]


def _request(
    example: Example,
    identifier: str,
    target: str | None,
    *,
    with_image: bool = True,
    with_question: bool = True,
) -> Request:
    pictures = example.images if with_image else ()
    question = (example.question or "") if with_question else ""
    parts: list[ImageRef | Text] = placed(question, pictures)
    parts.append(Text((target or "").strip(), scored=True))
    return Request(identifier, tuple(parts))


def placed(question: str, pictures: tuple[ImageRef, ...]) -> list[ImageRef | Text]:
    """Pictures where the question marks them, if it marks every one; else before it, in their order."""
    question = question.strip()
    places = list(_MARKER.finditer(question))
    unnumbered = iter(range(len(pictures)))
    numbers = [int(place[1]) - 1 if place[1] else next(unnumbered, -1) for place in places]
    if not pictures or sorted(numbers) != list(range(len(pictures))):
        words = _MARKER.sub("", question).strip()
        return [*pictures, *([Text(words)] if words else [])]
    parts: list[ImageRef | Text] = []
    end = 0
    for place, number in zip(places, numbers, strict=True):
        parts += [Text(question[end : place.start()]), pictures[number]]
        end = place.end()
    parts.append(Text(question[end:].lstrip("\n")))
    return [part for part in parts if not isinstance(part, Text) or part.text]


def placed_with_options(
    question: str, options: Sequence[str], pictures: tuple[ImageRef, ...]
) -> list[ImageRef | Text]:
    """Question and options, a line each; an option may be a picture ("<image 2>")."""
    listed = "\n".join(options)
    if any(place[1] for place in _MARKER.finditer(listed)):
        return _where_marked(f"{question.strip()}\n{listed}", pictures)
    parts = placed(question, pictures)
    if parts and isinstance(parts[-1], Text):
        return [*parts[:-1], Text("\n".join([parts[-1].text.rstrip(), *options]))]
    return [*parts, Text(listed)] if options else parts


def _where_marked(text: str, pictures: tuple[ImageRef, ...]) -> list[ImageRef | Text]:
    """Every picture where it is first marked: what is marked again is named, what is not comes first."""
    parts: list[ImageRef | Text] = []
    words, end, shown = "", 0, set[int]()
    for place in _MARKER.finditer(text):
        words, end = words + text[end : place.start()], place.end()
        number = int(place[1] or 0)
        if 0 < number <= len(pictures) and number not in shown:
            shown.add(number)
            parts += [Text(words), pictures[number - 1]]
            words = ""
        elif number:
            words += f"image {number}"
    parts.append(Text(words + text[end:]))
    unmarked = [picture for number, picture in enumerate(pictures, 1) if number not in shown]
    return [*unmarked, *(part for part in parts if not isinstance(part, Text) or part.text)]
