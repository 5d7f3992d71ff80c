"""Both answers on both pictures: what is right on the original and what is right on its twin, each scored after either.

Skill raises the right answer on both pictures; memory raises the old one on both. The old answer on the original is
scored with all items, so that a twin costs three requests more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heldout.benchmark import Benchmark, Example, same
from heldout.model.asking.twins import unchanged_twins
from heldout.model.item_scores import TRUNCATED, by_picture
from heldout.model.request import Request, Scorer, answer_request, is_picture
from heldout.model.scoring import Answers, replace_dropped, replace_rows, score_requests
from heldout.store import Dropped, Run

STAGE = "twins"


def score_twins(
    benchmark: Benchmark,
    examples: Sequence[Example],
    twins: Mapping[str, Benchmark],
    scored: Answers,
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    letters: bool = False,
    quiet: bool = False,
) -> int:
    """Write ``twin_scores`` for this model; returns its rows. ``scored``: every item with its own answer. ``letters``:
    the probabilities of options are recorded, too, so that twins that offer both answers need no score."""
    rows: list[dict[str, Any]] = []
    dropped: list[Dropped] = []
    for name, twin in twins.items():
        pairs, left_out = _pairs(benchmark, examples, name, twin, scored)
        if letters:
            pairs = [pair for pair in pairs if not offer_both(*pair)]
        answers = score_requests(
            scorer,
            _grouped(benchmark, pairs),
            run,
            f"twins/{folder}/{name}",
            fingerprint=_of_both(benchmark, twin),
            title=f"scoring {name} for {model}",
            sums_only=True,
            quiet=quiet,
        )
        dropped += left_out
        for example, other in pairs:
            row = _row(example, other, name, scored, answers)
            if isinstance(row, Dropped):
                dropped.append(row)
            else:
                rows.append({**row, "model": model})
    replace_dropped(run, STAGE, model, dropped)
    return replace_rows(run, "twin_scores", model, rows)


def _pairs(
    benchmark: Benchmark,
    examples: Sequence[Example],
    name: str,
    twin: Benchmark,
    scored: Answers,
) -> tuple[list[tuple[Example, Example]], list[Dropped]]:
    """Items with their twins; an item without one is no gap: many sets of twins are of a part."""
    others = {example.id: example for example in twin}
    unchanged = unchanged_twins(benchmark, twin)
    pairs, dropped = [], []
    for example in examples:
        other = others.get(example.id)
        if other is None:
            continue
        answer = (other.answer or "").strip()
        if example.id not in scored.scores or scored.scores[example.id].truncated:
            reason = "the original was not scored"
        elif not answer:
            reason = "no answer"
        elif is_picture(answer):
            reason = "the answer is a picture"
        elif example.id in unchanged:
            reason = "the twin shows the original"
        elif same(answer) == same(example.answer or ""):
            reason = "the twin has the same answer"
        else:
            pairs.append((example, other))
            continue
        dropped.append(Dropped(STAGE, example.id, reason, f"{name}: {other.origin}"))
    return pairs, dropped


def offer_both(example: Example, other: Example) -> bool:
    """Whether original and twin both offer the answers of both."""
    answers = {same(example.answer or ""), same(other.answer or "")}
    return all(answers <= {same(option) for option in item.options} for item in (example, other))


def _grouped(
    benchmark: Benchmark, pairs: Sequence[tuple[Example, Example]]
) -> Iterator[list[Request]]:
    """Originals that share a picture, then their twins, so that a backend reads each picture once."""
    twin_of = {example.id: other for example, other in pairs}
    for group in by_picture(benchmark, [example for example, _ in pairs]):
        yield [
            answer_request(example, _id(example, "original_new"), twin_of[example.id].answer or "")
            for example in group
        ]
        yield [
            answer_request(twin_of[example.id], _id(example, which), answer or "")
            for example in group
            for which, answer in (
                ("twin_old", example.answer),
                ("twin_new", twin_of[example.id].answer),
            )
        ]


def _id(example: Example, which: str) -> str:
    return f"{example.id}#{which}"


def _row(
    example: Example, other: Example, name: str, scored: Answers, answers: Answers
) -> dict[str, Any] | Dropped:
    values = {"original_old": scored.totals[example.id][0]}
    for which in ("original_new", "twin_old", "twin_new"):
        request = _id(example, which)
        if request in answers.dropped:
            lost = answers.dropped[request]
            return Dropped(STAGE, example.id, lost.reason, f"{name}, {which}: {lost.detail}")
        if answers.scores[request].truncated:
            return Dropped(STAGE, example.id, TRUNCATED, f"{name}, {which}")
        values[which] = answers.totals[request][0]
    return {
        "benchmark_id": example.id,
        "variant": name,
        "old_answer": (example.answer or "").strip(),
        "new_answer": (other.answer or "").strip(),
        **values,
    }


def _of_both(benchmark: Benchmark, twin: Benchmark) -> str:
    return hashlib.sha256(f"{benchmark.fingerprint} {twin.fingerprint}".encode()).hexdigest()
