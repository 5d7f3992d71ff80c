"""Do a server and a local copy of the model score alike? A sample through both, before anything is kept.

A server that reads a picture as another number of tokens, or puts it elsewhere, still gives plausible
log-probabilities. The prompt's length, the answer's tokens and their log-probabilities all have to agree.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark
from heldout.model.endpoint.align import bare_token
from heldout.model.endpoint.endpoint import Endpoint, read_score
from heldout.model.prompt import question_request
from heldout.model.request import Request, Score, Scorer

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


def check_parity(
    endpoint: Endpoint, local: Scorer, benchmark: Benchmark, *, seed: int = 0
) -> Parity:
    """Items with and without pictures, as the benchmark has them; the first difference is the reason."""
    requests = _sample(benchmark, seed)
    limit = TOLERANCE.get(_shared_dtype(endpoint, local), TOLERANCE_ELSE)
    counts = dict(zip((one.id for one in requests), local.count(requests), strict=True))
    ours = {one.id: one for one in local.score(requests)}
    largest, compared = 0.0, 0
    for request in requests:
        told, text = endpoint.tell(request)
        theirs, mine = read_score(request, told, text), ours[request.id]
        if not isinstance(theirs, Score) or not isinstance(mine, Score):
            why = next(one for one in (theirs, mine) if not isinstance(one, Score))
            return Parity(
                False, f"item {request.id}: {why.reason}: {why.detail}", compared, 0.0, limit
            )
        read = len(told.tokens) - (1 if text else 0)
        problem = _lengths(request, read, counts[request.id]) or _spelling(request, theirs, mine)
        if problem:
            return Parity(False, problem, compared, largest, limit)
        gaps = [abs(a - b) for a, b in zip(theirs.logprobs, mine.logprobs, strict=True)]
        gap = max((one if math.isfinite(one) else math.inf for one in gaps), default=0.0)
        largest, compared = max(largest, gap), compared + 1
        if gap > limit:
            problem = (
                f"item {request.id}: log-probabilities of one token differ by {gap:.3g} nats, at most "
                f"{limit:g} is the arithmetic's"
            )
            return Parity(False, problem, compared, largest, limit)
    told_all = f"{compared} items agree within {largest:.2g} nats per token"
    return Parity(True, told_all, compared, largest, limit)


def _sample(benchmark: Benchmark, seed: int) -> list[Request]:
    able = [one for one in benchmark if (one.answer or "").strip()]
    places = np.random.default_rng(seed).permutation(len(able))[:SAMPLE]
    return [question_request(able[int(place)]) for place in sorted(places)]


def _lengths(request: Request, theirs: int, ours: int) -> str:
    if theirs == ours:
        return ""
    pictures = f", {len(request.images)} of its parts pictures" if request.images else ""
    return (
        f"item {request.id}{pictures}: the server reads {theirs} tokens and the local copy {ours}; the "
        f"tokens of the picture or of the template are not the same"
    )


def _spelling(request: Request, theirs: Score, ours: Score) -> str:
    told = [bare_token(token) for token in theirs.tokens]
    expected = [bare_token(token) for token in ours.tokens]
    if told == expected:
        return ""
    return f"item {request.id}: the answer's tokens are {told} there and {expected} here"


def _shared_dtype(endpoint: Endpoint, local: Scorer) -> str:
    there, here = endpoint.identity["dtype"], local.identity.get("dtype", "")
    return here if there == here else ""
