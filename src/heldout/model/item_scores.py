"""Every item of a benchmark scored by one model: its answer, and with ``options`` every option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark, Example
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.request import (
    Request,
    Scorer,
    Text,
    is_picture,
    option_requests,
    question_request,
)
from heldout.model.scoring import Answers, replace_dropped, replace_rows, score_requests
from heldout.store import Dropped, Run

STAGE = "score"
TRUNCATED = "truncated prompt"


def by_picture(benchmark: Benchmark, examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Items in groups that share a picture, in the order in which the release first shows it."""
    groups: dict[str, list[Example]] = {}
    cluster = dict(zip((example.id for example in benchmark), benchmark.clusters, strict=True))
    for example in examples:
        groups.setdefault(cluster[example.id], []).append(example)
    yield from groups.values()


def answerable(examples: Sequence[Example]) -> tuple[list[Example], list[Dropped]]:
    """Items whose answer is a text. If the answer is a picture ("<image 3>"), its name cannot be scored."""
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
            "no item has an answer, so there is nothing to score: name its column when "
            "the benchmark is read (map: answer=COLUMN)"
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
        ([question_request(example) for example in group] for group in by_picture(benchmark, kept)),
        run,
        f"score/{folder}",
        fingerprint=benchmark.fingerprint,
        title=f"scoring {model}",
        quiet=quiet,
    )
    whole, cut = _whole(answers, [example.id for example in kept])
    replace_rows(run, "scores", model, (_score_row(answers, name, model) for name in whole))
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
        return [
            request for example in group for request in option_requests(example) if request.target
        ]

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
                rows.append(
                    {
                        "benchmark_id": example.id,
                        "model": model,
                        "option": number,
                        "text": text,
                        "sum_logprob": total,
                        "n_tokens": count,
                    }
                )
    replace_dropped(run, "options", model, list(answers.dropped.values()))
    return replace_rows(run, "option_scores", model, rows)


def _whole(answers: Answers, ids: Sequence[str]) -> tuple[list[str], list[Dropped]]:
    texts = [text for text in ids if text in answers.scores]
    detail = "the model read less than the whole prompt"
    cut = [
        Dropped(STAGE, name, TRUNCATED, detail) for name in texts if answers.scores[name].truncated
    ]
    lost = {dropped.id for dropped in cut}
    return [name for name in texts if name not in lost], cut


def _score_row(answers: Answers, identifier: str, model: str) -> dict[str, Any]:
    score = answers.scores[identifier]
    total, count = answers.totals[identifier]
    return {
        "benchmark_id": identifier,
        "model": model,
        "tokens": list(score.tokens),
        "logprobs": list(score.logprobs),
        "mu": list(score.mu),
        "sigma": list(score.sigma),
        "sum_logprob": total,
        "n_tokens": count,
        "span_ok": score.span_ok,
    }


# Items as one running text, the way a scraped release reads: what the order tests score.


# Part of the order scores' identity. Raise it with any change of what a model reads.
DOCUMENT = "heldout-document/1"
BLOCK = 8  # clusters from which an alternative predecessor is drawn: near, so that topics are alike
ALTERNATIVES = 2


def item_text(example: Example) -> str:
    """Every item ends alike, so that each order of the same items is the same text, rearranged."""
    question = " ".join((example.question or "").split())
    answer = " ".join((example.answer or "").split())
    return f"Question: {question}\nAnswer: {answer}\n\n" if question else f"{answer}\n\n"


def joint_request(name: str, items: Sequence[Example], *, interleaved: bool = False) -> Request:
    """Every item scored given those before it."""
    return Request(name, _parts(items, 0, interleaved), turn=False)


def neighbour_request(
    name: str, before: Example, item: Example, *, interleaved: bool = False
) -> Request:
    """One item scored given the one before it."""
    return Request(name, _parts([before, item], 1, interleaved), turn=False)


def shows_again(item: Example, before: Example | None) -> bool:
    """Whether to show the picture: questions on one picture follow it without showing it again."""
    return before is not None and item.images == before.images


def alternatives(clusters: Sequence[str], *, seed: int = 0) -> dict[int, tuple[int, ...]]:
    """Per item with a predecessor the places of others that might have come before it.

    Where the predecessor is of the item's own cluster, so are they; elsewhere they are of other clusters
    nearby. Items without any are not in the answer.
    """
    order = list(dict.fromkeys(clusters))
    rank = {cluster: place for place, cluster in enumerate(order)}
    members: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    others: dict[int, tuple[int, ...]] = {}
    for place in range(1, len(clusters)):
        own, before = clusters[place], clusters[place - 1]
        if own == before:
            pool = [other for other in members[own] if other not in (place, place - 1)]
        else:
            first = rank[own] // BLOCK * BLOCK
            near = order[max(0, min(first, len(order) - BLOCK)) : first + BLOCK]
            pool = [
                other
                for cluster in near
                if cluster != own
                for other in members[cluster]
                if other != place - 1
            ]
        if pool:
            rng = np.random.default_rng([seed, place])
            drawn = rng.choice(len(pool), min(ALTERNATIVES, len(pool)), replace=False)
            others[place] = tuple(pool[int(draw)] for draw in sorted(drawn))
    return others


def _parts(
    items: Sequence[Example], first_scored: int, interleaved: bool
) -> tuple[ImageRef | Text, ...]:
    parts: list[ImageRef | Text] = []
    before: Example | None = None
    for place, item in enumerate(items):
        if interleaved and not shows_again(item, before):
            parts += item.images
        parts.append(Text(item_text(item), scored=place >= first_scored))
        before = item
    return tuple(parts)
