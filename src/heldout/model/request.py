"""What a model is asked to score, and what it gave: the one contract of every backend.

A request is text and pictures in reading order. Some of the text is *scored*: only its tokens, found by
their character offsets, enter a score. A benchmark item has one scored text, its answer, at the end; a
shard of ``order-joint`` is one plain document in which every item is scored given those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from heldout.image import ImageRef
from heldout.store import Dropped


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


# What a model said to one question: the one contract of every backend that answers.


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
    """``finish``: the model stopped, was cut at its limit, or the server says that it refused.
    ``choice_logprobs``: of every letter shown as the first token, None where a backend does not tell.
    ``model`` and ``fingerprint``: who answered, by the server's own word (its ``model`` and
    ``system_fingerprint``); empty where it does not say. ``received``: when, in UTC."""

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
        object.__setattr__(self, "text", self.text.encode("utf-8", "replace").decode())


class Asker(Protocol):
    """A backend. ``identity`` is everything a reply depends on besides the prompt."""

    @property
    def identity(self) -> Mapping[str, str]: ...

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        """One answer per prompt, in any order. ``keep`` gets every reply the moment it is there, from
        whatever thread, before anything else can go wrong."""
        ...
