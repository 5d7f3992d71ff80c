"""Do a server and a local copy of the model score alike? A sample through both, before anything is kept.

A server that reads a picture as another number of tokens, or puts it elsewhere, still gives plausible
log-probabilities. The prompt's length, the answer's tokens and their log-probabilities all have to agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from heldout.benchmark import Benchmark
from heldout.model.endpoint.endpoint import Endpoint, read_score
from heldout.model.endpoint.read import bare_token
from heldout.model.prompt import question_request
from heldout.model.request import Request, Score, Scorer
from heldout.store import Dropped

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
    """A seeded sample through both; the first difference is the reason to go no further."""
    requests = _sample(benchmark, seed)
    limit = TOLERANCE.get(_shared_dtype(endpoint, local), TOLERANCE_ELSE)
    ours = {one.id: one for one in local.score(requests)}
    largest, compared = 0.0, 0
    for request in requests:
        told, text = endpoint.tell(request)
        redact = endpoint.connection.redact
        if redact(spelled := "".join(told.tokens)) != spelled:
            problem = f"item {request.id}: the prompt that the server read holds the key of its API"
            return Parity(False, problem, compared, largest, limit)
        theirs, mine = read_score(request, told, text), ours[request.id]
        if isinstance(theirs, Dropped) or isinstance(mine, Dropped):
            why = theirs if isinstance(theirs, Dropped) else mine
            assert isinstance(why, Dropped)
            problem = f"item {request.id}: {why.reason}: {why.detail}"
            return Parity(False, problem, compared, largest, limit)
        read = told.tokens[: len(told.tokens) - (1 if text else 0)]
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
    """Token by token, pictures' placeholders included; the first, of which nothing is told, aside."""
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
