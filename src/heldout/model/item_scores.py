"""Every item of a benchmark scored by one model: its answer, and with ``options`` every option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heldout.benchmark import Benchmark
from heldout.benchmark.example import Example
from heldout.errors import InputError
from heldout.model.prompt import is_picture, option_requests, question_request
from heldout.model.request import Request, Scorer
from heldout.model.scoring import Answers, score_requests
from heldout.model.tables import replace_dropped, replace_rows
from heldout.store import Dropped, Run

STAGE = "score"
TRUNCATED = "truncated prompt"


def by_picture(benchmark: Benchmark, examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Items in groups that share a picture, in the order in which the release first shows it."""
    groups: dict[str, list[Example]] = {}
    cluster = dict(zip((one.id for one in benchmark), benchmark.clusters, strict=True))
    for example in examples:
        groups.setdefault(cluster[example.id], []).append(example)
    yield from groups.values()


def answerable(examples: Sequence[Example]) -> tuple[list[Example], list[Dropped]]:
    """Items whose answer is a text. Where it is a picture ("<image 3>"), its name says nothing of it."""
    kept, dropped = [], []
    for example in examples:
        answer = (example.answer or "").strip()
        if answer and not is_picture(answer):
            kept.append(example)
        else:
            why = "the answer is a picture" if answer else "no answer"
            dropped.append(Dropped(STAGE, example.id, why, example.origin))
    if not kept:
        raise InputError(
            "no item has an answer, so there is nothing to score: name its column with --map answer=COLUMN"
        )
    return kept, dropped


def score_items(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    quiet: bool = False,
) -> tuple[Answers, int]:
    """Write ``scores`` for this model; returns the answers and how many prompts were truncated."""
    kept, dropped = answerable(examples)
    answers = score_requests(
        scorer,
        ([question_request(one) for one in group] for group in by_picture(benchmark, kept)),
        run,
        f"score/{folder}",
        fingerprint=benchmark.fingerprint,
        title=f"scoring {model}",
        quiet=quiet,
    )
    whole, cut = _whole(answers, [one.id for one in kept])
    replace_rows(run, "scores", model, (_score_row(answers, one, model) for one in whole))
    replace_dropped(run, STAGE, model, [*dropped, *answers.dropped.values(), *cut])
    return answers, len(cut)


def score_options(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    quiet: bool = False,
) -> int:
    """Write ``option_scores`` for this model; returns its rows."""
    with_options = [example for example in examples if example.options]

    def requests(group: Sequence[Example]) -> list[Request]:
        return [one for example in group for one in option_requests(example) if one.target]

    answers = score_requests(
        scorer,
        (requests(group) for group in by_picture(benchmark, with_options)),
        run,
        f"options/{folder}",
        fingerprint=benchmark.fingerprint,
        title=f"scoring the options for {model}",
        sums_only=True,
        quiet=quiet,
    )
    rows: list[dict[str, Any]] = []
    for example in with_options:
        for number, text in enumerate(example.options):
            name = f"{example.id}#option{number}"
            if name in answers.totals and not answers.scores[name].truncated:
                total, count = answers.totals[name]
                rows.append({
                    "benchmark_id": example.id, "model": model, "option": number, "text": text,
                    "sum_logprob": total, "n_tokens": count,
                })  # fmt: skip
    replace_dropped(run, "options", model, list(answers.dropped.values()))
    return replace_rows(run, "option_scores", model, rows)


def _whole(answers: Answers, ids: Sequence[str]) -> tuple[list[str], list[Dropped]]:
    found = [one for one in ids if one in answers.scores]
    detail = "the model read less than the whole prompt"
    cut = [Dropped(STAGE, one, TRUNCATED, detail) for one in found if answers.scores[one].truncated]
    lost = {one.id for one in cut}
    return [one for one in found if one not in lost], cut


def _score_row(answers: Answers, identifier: str, model: str) -> dict[str, Any]:
    score = answers.scores[identifier]
    total, count = answers.totals[identifier]
    return {
        "benchmark_id": identifier, "model": model, "tokens": list(score.tokens),
        "logprobs": list(score.logprobs), "mu": list(score.mu), "sigma": list(score.sigma),
        "sum_logprob": total, "n_tokens": count, "span_ok": score.span_ok,
    }  # fmt: skip
