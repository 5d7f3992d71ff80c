"""What a model said to one question: the one contract of every backend that answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from heldout.model.request import Request
from heldout.store.dropped import Dropped

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
