"""Checks of a model's scores before any test: does it look, is the table sound?

Does it look? Answers are scored again with another picture or question: scores must move.

Leaving something out is not enough: a model that never got the question still sees a shorter prompt. So
each sampled item is also scored with another item's picture, and with another question of as many words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.benchmark import Benchmark, Example
from heldout.errors import InputError
from heldout.model.request import Request, Scorer, question_request
from heldout.model.scoring import Answers, score_requests
from heldout.stats import tie_runs
from heldout.store import Run

T = TypeVar("T")
Floats = NDArray[np.float64]
SAMPLE = 32
#: share of the sampled scores that must move. Few scores move in a model that is sure of everything; in an
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


class SelfCheck(NamedTuple):
    """``passed`` is None where nothing could be checked: there is no reason to doubt the scores, and none to
    trust them."""

    name: str
    passed: bool | None
    reason: str

    @property
    def failed(self) -> bool:
        return self.passed is False

    @property
    def outcome(self) -> str:
        return {True: "passed", False: "failed", None: "not checked"}[self.passed]


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
) -> list[SelfCheck]:
    """Score a seeded sample again in up to four variants; what moves, and what does not."""
    known = [example for example in examples if example.id in scored.totals]
    rng = np.random.default_rng([seed, len(known)])
    chosen = sorted(rng.permutation(len(known))[:SAMPLE].tolist())
    sample = [known[place] for place in chosen]
    groups = [
        [
            request
            for example in sample
            if (request := _variant(example, name, known, rng)) is not None
        ]
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
    moves = {name: _moved(name, sample, scored, answers, noise) for name in VARIANTS}
    return [
        _judge(check, [moves[name] for name in VARIANTS if VARIANTS[name][0] == check])
        for check in ("image-ablation", "question-ablation")
    ]


def truncation_check(truncated: int, asked: int) -> SelfCheck:
    message = f"{truncated:,} of {asked:,} prompts were cut before the model read them"
    return SelfCheck("truncation", truncated <= 0.01 * asked, message)


class _Moved(NamedTuple):
    what: str
    pairs: int
    moved: int
    median: float


def _variant(
    example: Example, name: str, others: Sequence[Example], rng: np.random.Generator
) -> Request | None:
    request: Request | None = None
    if name == "no-picture" and example.images:
        request = question_request(example, with_image=False)
    elif name == "other-picture" and example.images:
        pictures = _another([other.images for other in others if other.images], example.images, rng)
        request = question_request(replace(example, images=pictures)) if pictures else None
    elif name == "no-question" and (example.question or "").strip():
        request = question_request(example, with_question=False)
    elif name == "other-question" and (example.question or "").strip():
        question = _alike(example.question or "", others)
        request = question_request(replace(example, question=question)) if question else None
    if request is None or not any(not getattr(part, "scored", False) for part in request.content):
        return None  # nothing is left of an item that has only a picture
    return replace(request, id=f"{example.id}#{name}")


def _alike(question: str, others: Sequence[Example]) -> str | None:
    """Another question of the same length in words, then in letters: otherwise its length alone could move the
    score."""
    asked = {other.question for other in others if other.question and other.question.strip()} - {
        question
    }
    words, letters = len(question.split()), len(question)
    return min(
        asked,
        key=lambda other: (abs(len(other.split()) - words), abs(len(other) - letters), other),
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


def _judge(name: str, request: Sequence[_Moved]) -> SelfCheck:
    enough = [moved for moved in request if moved.pairs >= FEWEST]
    if not enough:
        what = "picture" if name == "image-ablation" else "question"
        return SelfCheck(name, None, f"fewer than {FEWEST} items have a {what} to change")
    message = "; ".join(
        f"{moved.moved} of {moved.pairs} scores move {moved.what} (median {moved.median:.2g} nats)"
        for moved in enough
    )
    still = [moved for moved in enough if moved.moved < max(1.0, MOVES * moved.pairs)]
    if still:
        message += ": the model does not get it, so its scores are not about this benchmark"
    return SelfCheck(name, not still, message)


# What the table of scores alone allows to check.


# Log-probabilities are continuous: equal ones are an accident, unless the model is certain (log p = 0).
TIED = 0.01
FEW_TIES = 5
BAD_SPANS = 0.01
FEW_ITEMS = 20


@dataclass(frozen=True)
class ModelScores:
    """One model's scores, joined to the items they belong to, in released order."""

    model: str
    frame: pl.DataFrame

    @classmethod
    def join(cls, model: str, items: pl.DataFrame, scores: pl.DataFrame) -> ModelScores:
        own = scores.filter(pl.col("model") == model)
        if own["benchmark_id"].n_unique() < len(own):
            raise InputError(
                f"the scores table has two rows for one item of {model}: import it again"
            )
        return cls(model, items.join(own, on="benchmark_id", how="inner").sort("position"))

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def clusters(self) -> list[str]:
        return self.frame["cluster"].to_list()

    @cached_property
    def totals(self) -> Floats:
        return self.frame["sum_logprob"].to_numpy().astype(np.float64)

    @cached_property
    def counts(self) -> Floats:
        return self.frame["n_tokens"].to_numpy().astype(np.float64)

    @cached_property
    def means(self) -> Floats:
        """Mean log-probability per token of the answer."""
        return np.asarray(self.totals / np.maximum(self.counts, 1.0), dtype=np.float64)

    def flat(self, column: str) -> Floats:
        """All tokens' values one after the other; ``counts`` says whose they are."""
        return self.frame[column].explode().to_numpy().astype(np.float64)

    def has(self, column: str) -> bool:
        """Every item has this list, one value per token."""
        lengths = self.frame[column].list.len().fill_null(0)
        return bool((lengths == self.frame["n_tokens"]).all())


def check_scores(scored: ModelScores, items: int, known: Mapping[str, Any]) -> list[SelfCheck]:
    """All checks of one model: those of its table, and those that scoring kept in the manifest.

    Args:
        scored: The model's scores.
        items: How many items the benchmark has.
        known: What the manifest says of the model.
    """
    checks = [
        _coverage(scored, items),
        _finite(scored),
        _spans(scored),
        _answers(scored),
        _constant(scored),
        _ties(scored),
    ]
    return [*checks, *_kept(known, {check.name for check in checks})]


def _kept(known: Mapping[str, Any], record: set[str]) -> list[SelfCheck]:
    """What only scoring could check, because it needs the model: does it look, was a prompt cut?"""
    kept = known.get("self_checks") or ()
    if not kept and str(known.get("backend", "")).startswith("recorded"):
        message = "recorded scores come without the model: whether it looks is not known"
        return [SelfCheck("ablation", None, message)]
    return [
        SelfCheck(str(check["name"]), check["passed"], str(check["reason"]))
        for check in kept
        if check["name"] not in record
    ]


def _coverage(scored: ModelScores, items: int) -> SelfCheck:
    message = f"{len(scored):,} of {items:,} items have a score"
    return SelfCheck("coverage", len(scored) >= FEW_ITEMS, message)


def _finite(scored: ModelScores) -> SelfCheck:
    impossible = int((scored.totals == -np.inf).sum())
    bad = int((~np.isfinite(scored.totals)).sum()) - impossible + int((scored.counts < 1).sum())
    message = f"{bad:,} scores are NaN, infinite or of no token" if bad or not impossible else ""
    if impossible:
        message += (
            f"{'; ' if bad else ''}{impossible:,} scores are minus infinity: the answer has a token of "
            f"probability 0, which no test of means can weigh. Score these items again in float32, or leave them out"
        )
    return SelfCheck("finite", bad + impossible == 0, message)


def _spans(scored: ModelScores) -> SelfCheck:
    rows = scored.frame.select("span_ok", "tokens", "answer").rows()
    spelled = [_spells(tokens or [], answer or "") if ok else False for ok, tokens, answer in rows]
    bad, unknown = spelled.count(False), spelled.count(None)
    message = f"in {bad:,} of {len(rows):,} items the scored span is not the answer alone"
    if unknown:
        message += f"; {unknown:,} have no tokens to compare with it, or none that can be read back"
    if bad > BAD_SPANS * len(rows):
        return SelfCheck("span", False, message)
    return SelfCheck("span", None if rows and unknown == len(rows) else True, message)


def _spells(tokens: Sequence[str], answer: str) -> bool | None:
    """Do the letters of the tokens spell the answer? None without tokens; pieces of other alphabets
    cannot be read back."""
    written = "".join(tokens)
    if not written or not answer.isascii():
        return None
    letters = [
        "".join(c for c in text if c.isascii() and c.isalnum()) for text in (written, answer)
    ]
    return letters[0] == letters[1]


def _answers(scored: ModelScores) -> SelfCheck:
    answers = [(answer or "").strip() for answer in scored.frame["answer"]]
    empty = sum(not answer for answer in answers)
    if empty > 0.01 * max(len(answers), 1):
        return SelfCheck("answers", False, f"{empty:,} of {len(answers):,} answers are empty")
    if len(answers) > 1 and len(set(answers)) == 1:
        return SelfCheck("answers", False, f"every answer is {answers[0][:40]!r}: nothing to tell")
    return SelfCheck("answers", True, f"{len(set(answers)):,} different answers, {empty} empty")


def _constant(scored: ModelScores) -> SelfCheck:
    different = len(np.unique(scored.means))
    message = f"{different:,} different scores among {len(scored):,}"
    return SelfCheck("variation", different > 1, message)


def _ties(scored: ModelScores) -> SelfCheck:
    frame = scored.frame
    asked = list(zip(frame["question"], frame["answer"], frame["cluster"], strict=True))
    certain = scored.means > -1e-9  # a model sure of two answers gives both log p = 0
    values = np.where(certain, -np.arange(len(scored), dtype=np.float64) - 1e6, scored.means)
    runs = tie_runs(values, asked)
    message = (
        f"{runs.tied:,} of {runs.pairs:,} neighbouring items with another question, answer or image "
        f"have the same score to the last digit (longest run {runs.longest})"
    )
    broken = runs.tied >= FEW_TIES and runs.rate > TIED
    if broken:
        message += ": the adapter drops what tells them apart"
    return SelfCheck("ties", not broken, message)


def save_checks(run: Run, model: str, checks: Sequence[SelfCheck]) -> list[SelfCheck]:
    """Keep ``checks`` with the model and return them with those that its table alone allows."""
    if checks:
        keep_checks(run, model, checks)
    items = run.frame("items").sort("position")
    scored = ModelScores.join(model, items, run.frame("scores"))
    return check_scores(scored, len(items), run.manifest().get("models", {}).get(model, {}))


def keep_checks(run: Run, model: str, checks: Sequence[SelfCheck]) -> None:
    known = run.manifest().get("models", {}).get(model, {})
    kept = [check._asdict() for check in checks]
    run.update("models", {model: {**known, "self_checks": kept}})
