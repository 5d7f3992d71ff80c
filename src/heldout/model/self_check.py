"""Does the model look? Answers are scored again with another picture or question: scores must move.

Leaving something out is not enough: a model that never got the question still sees a shorter prompt. So
each sampled item is also scored with another item's picture, and with another question of as many words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from heldout.benchmark import Benchmark, Example
from heldout.model.prompt import question_request
from heldout.model.request import Request, Scorer
from heldout.model.scoring import Answers, score_requests
from heldout.store import Run

T = TypeVar("T")
SAMPLE = 32
#: share of the sampled scores that must move. Few may do so in a model that is sure of everything; in an
#: adapter that drops the picture, none does.
MOVES = 0.1
FEWEST = 4  # pairs below which nothing is concluded
#: nats by which arithmetic alone may move a score when it is computed in another batch
NOISE = {"float32": 1e-4, "float64": 1e-6}
NOISE_ELSE = 1e-2

# name: (what it does, in the words of the reason)
VARIANTS = {
    "no-picture": ("image-ablation", "without its picture"),
    "other-picture": ("image-ablation", "with another item's picture"),
    "no-question": ("question-ablation", "without its question"),
    "other-question": ("question-ablation", "with another item's question"),
}


class Checked(NamedTuple):
    """``passed`` is None where nothing could be checked."""

    name: str
    passed: bool | None
    reason: str


def ablation_checks(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    folder: str,
    scored: Answers,
    *,
    seed: int = 0,
    quiet: bool = False,
) -> list[Checked]:
    """Score a seeded sample again in up to four variants; what moves, and what does not."""
    known = [example for example in examples if example.id in scored.totals]
    rng = np.random.default_rng([seed, len(known)])
    chosen = sorted(rng.permutation(len(known))[:SAMPLE].tolist())
    sample = [known[place] for place in chosen]
    groups = [
        [request for one in sample if (request := _variant(one, name, known, rng)) is not None]
        for name in VARIANTS
    ]
    answers = score_requests(
        scorer,
        groups,
        run,
        f"self-check/{folder}",
        fingerprint=benchmark.fingerprint,
        title="checking that the model looks",
        sums_only=True,
        quiet=quiet,
    )
    noise = NOISE.get(scorer.identity.get("dtype", ""), NOISE_ELSE)
    found = {name: _moved(name, sample, scored, answers, noise) for name in VARIANTS}
    return [
        _judge(check, [found[name] for name in VARIANTS if VARIANTS[name][0] == check])
        for check in ("image-ablation", "question-ablation")
    ]


def truncation_check(truncated: int, asked: int) -> Checked:
    message = f"{truncated:,} of {asked:,} prompts were cut before the model read them"
    return Checked("truncation", truncated <= 0.01 * asked, message)


class _Moved(NamedTuple):
    what: str
    pairs: int
    moved: int
    median: float


def _variant(
    example: Example, name: str, others: Sequence[Example], rng: np.random.Generator
) -> Request | None:
    made: Request | None = None
    if name == "no-picture" and example.images:
        made = question_request(example, with_image=False)
    elif name == "other-picture" and example.images:
        pictures = _another([other.images for other in others if other.images], example.images, rng)
        made = question_request(replace(example, images=pictures)) if pictures else None
    elif name == "no-question" and (example.question or "").strip():
        made = question_request(example, with_question=False)
    elif name == "other-question" and (example.question or "").strip():
        question = _alike(example.question or "", others)
        made = question_request(replace(example, question=question)) if question else None
    if made is None or not any(not getattr(part, "scored", False) for part in made.content):
        return None  # nothing to ask with: an item that was nothing but its picture
    return replace(made, id=f"{example.id}#{name}")


def _alike(question: str, others: Sequence[Example]) -> str | None:
    """Another question as long as this one, in words and then in letters: else its length would do."""
    asked = {other.question for other in others if other.question and other.question.strip()} - {
        question
    }
    words, letters = len(question.split()), len(question)
    return min(
        asked,
        key=lambda one: (abs(len(one.split()) - words), abs(len(one) - letters), one),
        default=None,
    )


def _another(values: Sequence[T], own: T, rng: np.random.Generator) -> T | None:
    different = [value for value in values if value != own]
    return different[int(rng.integers(len(different)))] if different else None


def _moved(
    name: str, sample: Sequence[Example], scored: Answers, answers: Answers, noise: float
) -> _Moved:
    gaps = []
    for example in sample:
        again = answers.totals.get(f"{example.id}#{name}")
        if again is not None:
            gaps.append(abs(again[0] - scored.totals[example.id][0]))
    values = np.asarray(gaps)
    finite = values[np.isfinite(values)]
    median = float(np.median(finite)) if len(finite) else 0.0
    return _Moved(VARIANTS[name][1], len(finite), int((finite > noise).sum()), median)


def _judge(name: str, made: Sequence[_Moved]) -> Checked:
    enough = [moved for moved in made if moved.pairs >= FEWEST]
    if not enough:
        what = "picture" if name == "image-ablation" else "question"
        return Checked(name, None, f"fewer than {FEWEST} items have a {what} to change")
    message = "; ".join(
        f"{moved.moved} of {moved.pairs} scores move {moved.what} (median {moved.median:.2g} nats)"
        for moved in enough
    )
    still = [moved for moved in enough if moved.moved < max(1.0, MOVES * moved.pairs)]
    if still:
        message += ": the model does not get it, so its scores are not about this benchmark"
    return Checked(name, not still, message)
