"""An OpenAI-compatible server as a backend: log-probabilities of prompts, asked over HTTP."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from heldout.benchmark import Benchmark
from heldout.errors import InputError
from heldout.image import ImageError
from heldout.model.endpoint._read import (
    PromptTokens,
    bare,
    bare_token,
    chat_body,
    completion_body,
    document,
    ending,
    name_of,
    read_chat,
    read_completion,
    spell,
)
from heldout.model.endpoint.capabilities import Capabilities, probe
from heldout.model.endpoint.connection import (
    Connection,
    EndpointError,
    RefusedError,
    ServerWatch,
    UnansweredError,
    in_parallel,
)
from heldout.model.request import TEMPLATE, Request, Score, Scorer, Text, question_request
from heldout.store import Dropped

STAGE = "score"
CHAT, COMPLETIONS = "/chat/completions", "/completions"
IMAGE_TOKENS = 600  # an estimate for budgets: servers do not say beforehand what a picture costs
_MOST_LEADING = 4  # special tokens a server may put before a document
FAILED = "the endpoint failed"  # this time: the next run asks again


@dataclass
class Endpoint:
    """``Endpoint.open`` asks what the server can do; requests beyond that are refused before any runs."""

    connection: Connection
    model: str
    can: Capabilities
    concurrency: int = 4
    dtype: str = "unknown"
    #: which models the server named, in how many answers
    named: Counter[str] = field(default_factory=Counter, repr=False)
    _answered: Request | None = field(default=None, repr=False)
    _watch: ServerWatch = field(default_factory=ServerWatch, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(
        cls,
        connection: Connection,
        model: str | None,
        *,
        concurrency: int = 4,
        dtype: str = "unknown",
    ) -> Endpoint:
        can = probe(connection, model)
        if not can.chat.works and not can.completions.works:
            raise InputError(
                f"{connection.url} gives no log-probabilities of prompts: chat completions: "
                f"{can.chat.reason}; completions: {can.completions.reason}. Serve the model with vLLM "
                f"(vllm serve MODEL --max-logprobs 1 or more), or score a local copy of it"
            )
        return cls(connection, can.model, can, concurrency, dtype)

    @property
    def identity(self) -> Mapping[str, str]:
        how = TEMPLATE if self.can.chat.works else f"{TEMPLATE} as a plain document"
        return {
            "backend": f"endpoint {'chat' if self.can.chat.works else 'completions'}",
            "model": self.model,
            "revision": "unknown",
            "dtype": self.dtype,
            "template": how,
            "server": self.can.server,
        }

    def count(self, requests: Sequence[Request]) -> list[int]:
        """An estimate, by the characters per token that the server's answers showed."""
        counts = []
        for request in requests:
            letters = sum(len(part.text) for part in request.content if isinstance(part, Text))
            tokens = math.ceil(letters / self.can.letters_per_token)
            counts.append(max(1, tokens + IMAGE_TOKENS * len(request.images)))
        return counts

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        """As many at once as ``concurrency``; what is answered before the server dies is still given."""
        self._watch.begin()
        self.connection.stopped.clear()
        yield from in_parallel(self.ask, requests, self.concurrency, self.connection.stop)

    def ask(self, request: Request) -> Score | Dropped:
        try:
            answer = self.tell(request)
        except ImageError as error:
            return Dropped(STAGE, request.id, error.reason, error.detail)
        except RefusedError as refused:
            return self._refused(request, refused)
        except UnansweredError as silent:
            return self._refused(
                request, self._watch.unanswered(self.connection, silent, self._again)
            )
        self._watch.succeeded()
        self._answered = request
        return read_score(request, *answer, redact=self.connection.redact)

    def tell(
        self, request: Request, connection: Connection | None = None
    ) -> tuple[PromptTokens, str]:
        """The prompt as the server read it, and the document that was sent ("" for a chat)."""
        self.check(request)
        connection = connection or self.connection
        if request.turn and self.can.chat.works:
            answer, text = connection.post(CHAT, chat_body(self.model, request)), ""
            read = read_chat(answer)
        else:
            text = document(request)
            answer = connection.post(COMPLETIONS, completion_body(self.model, text))
            read = read_completion(answer)
        with self._lock:
            self.named[name_of(answer)] += 1
        return read, text

    def check(self, request: Request) -> None:
        """Refuse what this server cannot do at all: that is an error of the settings, not of the item."""
        if request.images and not (request.turn and self.can.images.works):
            reason = self.can.images.reason if request.turn else "plain documents hold text alone"
            raise EndpointError(
                f"{self.connection.url} cannot score a request with a picture ({request.id}): {reason}. "
                f"Score a local copy of this model instead"
            )
        if not request.turn and not self.can.completions.works:
            raise EndpointError(
                f"{self.connection.url} cannot score plain documents, which the order tests need: "
                f"{self.can.completions.reason}"
            )

    def _refused(self, request: Request, refused: RefusedError) -> Dropped:
        if refused.status == 404:
            raise EndpointError(
                f"{self.connection.url} does not serve {self.model}: {refused.detail}"
            )
        self._watch.refused(self.connection, refused, self._again, units="requests")
        broken = refused.status >= 500 or refused.status == 0
        reason = FAILED if broken else "refused by the endpoint"
        message = f"status {refused.status}: {refused.detail}" if refused.status else refused.detail
        return Dropped(STAGE, request.id, reason, message)

    @property
    def _again(self) -> Callable[[Connection], object] | None:
        """Sends a request that was answered before; None where there is none."""
        request = self._answered
        return None if request is None else lambda connection: self.tell(request, connection)


def read_score(
    request: Request, tokens_read: PromptTokens, text: str, redact: Callable[[str], str] = str
) -> Score | Dropped:
    """The scored tokens out of a prompt: the last ones of a chat, or by place in a document."""
    if not text:
        span = ending(tokens_read.tokens, request.target)
        if span is None:
            detail = f"the prompt ends in {tokens_read.end(redact)!r}, which is not the answer"
            return Dropped(STAGE, request.id, "answer not found in the prompt", detail)
        places = list(range(*span))
        whole = True
    else:
        spans = _document_spans(tokens_read.tokens, text)
        if spans is None:
            detail = "the server's tokens do not spell what was sent"
            return Dropped(STAGE, request.id, "document not found in the prompt", detail)
        places, whole = _scored_places(request, text, spans)
    scored = [place for place in places if tokens_read.logprobs[place] is not None]
    if len(scored) < len(places) - (1 if text else 0) or not scored:
        detail = f"{len(places) - len(scored)} of {len(places)} tokens have no log-probability"
        return Dropped(STAGE, request.id, "no log-probabilities", detail)
    logprobs = tuple(
        value for place in scored if (value := tokens_read.logprobs[place]) is not None
    )
    cut = tokens_read.prompt_tokens is not None and tokens_read.prompt_tokens > len(
        tokens_read.tokens
    )
    tokens = tuple(tokens_read.tokens[place] for place in scored)
    return Score(request.id, tokens, logprobs, span_ok=whole, truncated=cut)


def _document_spans(tokens: Sequence[str], text: str) -> list[tuple[int, int] | None] | None:
    """Per token its characters of the bare text; None for special tokens before and what is after."""
    for leading in range(min(_MOST_LEADING, len(tokens) - 1) + 1):
        for behind in (1, 0):  # the token that was generated
            spans = spell(tokens[leading : len(tokens) - behind], text)
            if spans is not None:
                return [*[None] * leading, *spans, *[None] * behind]
    return None


def _scored_places(
    request: Request, text: str, spans: Sequence[tuple[int, int] | None]
) -> tuple[list[int], bool]:
    """Tokens of the scored parts, and whether none of them reaches into an unscored one."""
    marks: list[bool] = []
    if request.turn:
        marks = [False] * (len(bare(text)) - len(bare(request.target)))
        marks += [True] * len(bare(request.target))
    else:
        for part in request.content:
            if isinstance(part, Text):
                marks += [part.scored] * len(bare(part.text))
    places, whole = [], True
    for place, span in enumerate(spans):
        if span is None:
            continue
        start, end = span
        # A space belongs to the following text; the last space of a document to the preceding one.
        inside = marks[start:end] or marks[start : start + 1] or marks[-1:]
        if any(inside):
            places.append(place)
            whole = whole and all(inside)
    return places, whole


# Parity: whether a server and a local copy of the model give the same scores, on a sample, before anything is
# kept.
#
# A server that turns a picture into another number of tokens, or places it elsewhere, still gives plausible
# log-probabilities. The prompt's length, the answer's tokens and their log-probabilities all have to agree.


SAMPLE = 8
#: nats per token. Two implementations of one model in half precision differ by a few hundredths.
TOLERANCE = {"float32": 1e-3}
TOLERANCE_ELSE = 0.1


@dataclass(frozen=True)
class Parity:
    passed: bool
    reason: str
    compared: int
    largest: float  # difference of one token's log-probability, in nats
    tolerance: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class LocalCopy(Scorer, Protocol):
    def tokens(self, request: Request) -> list[str]:
        """Every token of the prompt the model reads, in words."""
        ...


def check_parity(
    endpoint: Endpoint, local: LocalCopy, benchmark: Benchmark, *, seed: int = 0
) -> Parity:
    """Score a seeded sample with both; the first difference is raised as an error."""
    requests = _sample(benchmark, seed)
    limit = TOLERANCE.get(_shared_dtype(endpoint, local), TOLERANCE_ELSE)
    ours = {score.id: score for score in local.score(requests)}
    largest, compared = 0.0, 0
    for request in requests:
        served, text = endpoint.tell(request)
        redact = endpoint.connection.redact
        if redact(spelled := "".join(served.tokens)) != spelled:
            problem = f"item {request.id}: the prompt that the server read holds the key of its API"
            return Parity(False, problem, compared, largest, limit)
        theirs, mine = read_score(request, served, text), ours[request.id]
        if isinstance(theirs, Dropped) or isinstance(mine, Dropped):
            why = theirs if isinstance(theirs, Dropped) else mine
            assert isinstance(why, Dropped)
            problem = f"item {request.id}: {why.reason}: {why.detail}"
            return Parity(False, problem, compared, largest, limit)
        read = served.tokens[: len(served.tokens) - (1 if text else 0)]
        problem = _same_prompt(request, read, local.tokens(request))
        problem = problem or _same_answer(request, theirs, mine)
        if not problem:
            gaps = [abs(a - b) for a, b in zip(theirs.logprobs, mine.logprobs, strict=True)]
            gap = max(gap if math.isfinite(gap) else math.inf for gap in gaps)
            largest, compared = max(largest, gap), compared + 1
            if gap > limit:
                problem = (
                    f"item {request.id}: the log-probabilities of one token differ by {gap:.3g} nats, of "
                    f"which arithmetic explains {limit:g}"
                )
        if problem:
            return Parity(False, problem, compared, largest, limit)
    told_all = f"{compared} items agree within {largest:.2g} nats per token"
    return Parity(True, told_all, compared, largest, limit)


def _sample(benchmark: Benchmark, seed: int) -> list[Request]:
    able = [example for example in benchmark if (example.answer or "").strip()]
    places = np.random.default_rng(seed).permutation(len(able))[:SAMPLE]
    return [question_request(able[int(place)]) for place in sorted(places)]


def _same_prompt(request: Request, theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Token by token, pictures' placeholders included; without the first, which has no log-probability."""
    texts, expected = [bare_token(token) for token in theirs], [bare_token(token) for token in ours]
    place = next(
        (n for n, (a, b) in enumerate(zip(texts, expected, strict=False)) if a != b and n and a),
        min(len(texts), len(expected)),
    )
    if place == len(texts) == len(expected):
        return ""
    return (
        f"item {request.id}: the server reads {len(texts)} tokens, the copy {len(expected)}; they part "
        f"at token {place}, {_around(theirs, place)!r} there and {_around(ours, place)!r} here. The tokens "
        f"of the picture or of the chat template are not the same"
    )


def _around(tokens: Sequence[str], place: int) -> str:
    return "".join(tokens[max(0, place - 3) : place + 3])


def _same_answer(request: Request, theirs: Score, ours: Score) -> str:
    texts = [bare_token(token) for token in theirs.tokens]
    expected = [bare_token(token) for token in ours.tokens]
    if texts == expected:
        return ""
    return f"item {request.id}: the answer's tokens are {texts} there and {expected} here"


def _shared_dtype(endpoint: Endpoint, local: Scorer) -> str:
    there, here = endpoint.identity["dtype"], local.identity.get("dtype", "")
    return here if there == here else ""
