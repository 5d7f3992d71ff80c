"""Requests to score and their results: the interface of every backend.

A request is text and pictures in reading order. Some of the text is *scored*: only its tokens, found by
their character offsets, enter a score. A benchmark item has one scored text, its answer, at the end; a
shard of ``order-joint`` is one plain document in which every item is scored given those before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from heldout.image import ImageRef
from heldout.store import Dropped

if TYPE_CHECKING:  # scoring runs where the benchmark's own readers are not installed
    from heldout.benchmark import Example


@dataclass(frozen=True)
class Text:
    text: str
    scored: bool = False


@dataclass(frozen=True)
class Request:
    """``turn``: what is not scored is a user's turn in the model's chat template, and the scored text
    (the last part, and the only one) opens the reply. Otherwise the parts are one plain document."""

    id: str
    content: tuple[ImageRef | Text, ...]
    turn: bool = True

    @property
    def images(self) -> tuple[ImageRef, ...]:
        return tuple(part for part in self.content if isinstance(part, ImageRef))

    @property
    def target(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text) and part.scored)


@dataclass(frozen=True)
class Score:
    """Log-probabilities of the scored tokens; ``mu`` and ``sigma`` are the mean and standard deviation
    of log p over the whole vocabulary at each position, empty where a backend cannot tell."""

    id: str
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    mu: tuple[float, ...] = ()
    sigma: tuple[float, ...] = ()
    span_ok: bool = True  # the scored tokens cover the scored text and nothing else
    truncated: bool = False  # the model read less than the whole prompt

    @property
    def total(self) -> float:
        return float(sum(self.logprobs))


class Scorer(Protocol):
    """A backend. ``identity`` is everything a score depends on besides the request: backend, model,
    revision, dtype, template. Scores of different identity are never compared."""

    @property
    def identity(self) -> Mapping[str, str]: ...

    def count(self, requests: Sequence[Request]) -> list[int]:
        """Tokens each request costs, pictures included, without running the model."""
        ...

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        """One answer per request, in any order: a score, or why there is none (``Dropped.id`` is the
        request's). Requests that share a picture are best given next to each other."""
        ...


# Prompts and replies: the interface of every backend that answers.


STOPPED, CUT, REFUSED = "stop", "length", "refused"


@dataclass(frozen=True)
class Prompt:
    """A request without a scored text; ``letters``: how many options it shows, 0 for an open one.
    ``schema``: a JSON schema that the reply has to follow, for backends that can constrain it."""

    request: Request
    letters: int = 0
    schema: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Reply:
    """``finish``: the model stopped, was cut at its limit, or the server reports a refusal.
    ``choice_logprobs``: of every letter shown as the first token, None where a backend does not tell.
    ``model`` and ``fingerprint``: the server's ``model`` and ``system_fingerprint``; empty if it does not send
    them. ``received``: when, in UTC."""

    id: str
    text: str
    finish: str = STOPPED
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    choice_logprobs: tuple[float | None, ...] = ()
    model: str = ""
    fingerprint: str = ""
    received: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Half of a surrogate pair, as a cut emoji leaves it, is no text that a table can hold.
        for name in ("text", "model", "fingerprint"):
            value = getattr(self, name).encode("utf-8", "replace").decode()
            object.__setattr__(self, name, value)


class Asker(Protocol):
    """A backend. ``identity`` is everything a reply depends on besides the prompt."""

    @property
    def identity(self) -> Mapping[str, str]: ...

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        """One answer per prompt, in any order. ``keep`` receives every reply as soon as it arrives, from any
        thread, so that it is not lost by a later error."""
        ...


# From a benchmark's item to what a model reads: pictures, then the question as released, then the answer.
#
# Nothing is added to the item's own words: models understand an instruction ("answer briefly") differently.
# Options are not listed: a listed answer is copied, not remembered.


# Part of every score's identity. Raise it with any change of what a model reads.
TEMPLATE = "heldout-question/1"

# Marks of pictures in released questions: <image>, <image 2>, <image_2>.
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


def answer_request(example: Example, identifier: str, answer: str) -> Request:
    """Another answer than its own after the item's pictures and question."""
    return _request(example, identifier, answer)


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
    """Every picture at its first mark: further marks become names, and unmarked pictures come first."""
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
