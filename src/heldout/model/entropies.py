"""Rényi entropies of every item over its slices: the picture's tokens, the question's and the answer's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark, Example
from heldout.errors import InputError
from heldout.model.item_scores import answerable, by_picture
from heldout.model.local.entropy import ORDERS, SHARES, SLICES
from heldout.model.request import Request, Score, Scorer, question_request
from heldout.model.scoring import replace_dropped, replace_rows, score_requests
from heldout.store import Dropped, Run

STAGE = "entropies"
CELLS = tuple(itertools.product(SLICES, ORDERS, SHARES))
_NAMES = tuple(f"{part}/{order:g}/{share:g}" for part, order, share in CELLS)


@runtime_checkable
class EntropyReader(Protocol):
    """A backend that shows its logits at every place of a prompt."""

    def entropies(
        self, requests: Iterable[Request]
    ) -> Iterator[tuple[str, NDArray[np.float64]] | Dropped]:
        """By request (slices, orders, shares): means of the largest entropies."""
        ...


@dataclass(frozen=True)
class _AsScores:
    """Entropies in the place of log-probabilities, so that a killed run goes on as scoring does."""

    reader: EntropyReader
    identity: Mapping[str, str]

    def count(self, requests: Sequence[Request]) -> list[int]:
        return [0] * len(requests)

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        for result in self.reader.entropies(requests):
            if isinstance(result, Dropped):
                yield result
            else:
                name, values = result
                yield Score(name, _NAMES, tuple(values.ravel().tolist()))


def score_entropies(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    quiet: bool = False,
) -> int:
    """Write ``entropies`` for this model; returns its rows."""
    if not isinstance(scorer, EntropyReader):
        raise InputError(
            "entropies: needs the logits at every place of a prompt, which this backend does not give; use a "
            "local checkpoint or an ONNX folder (the setting model)"
        )
    kept, _ = answerable(examples)
    answers = score_requests(
        _AsScores(scorer, {**scorer.identity, "reads": STAGE}),
        ([question_request(example) for example in group] for group in by_picture(benchmark, kept)),
        run,
        f"{STAGE}/{folder}",
        fingerprint=benchmark.fingerprint,
        title=f"reading entropies of {model}",
        quiet=quiet,
    )
    rows: list[dict[str, Any]] = [
        {
            "benchmark_id": name,
            "model": model,
            "slice": part,
            "order": order,
            "share": share,
            "entropy": value,
        }
        for name, score in answers.scores.items()
        for (part, order, share), value in zip(CELLS, score.logprobs, strict=True)
        if np.isfinite(value)
    ]
    replace_dropped(run, STAGE, model, list(answers.dropped.values()))
    return replace_rows(run, STAGE, model, rows)
