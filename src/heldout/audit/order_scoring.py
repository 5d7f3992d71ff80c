"""The order tests' tables: shards read in released and shuffled order, items after other predecessors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heldout.benchmark import Benchmark
from heldout.benchmark.example import Example
from heldout.detect.order_joint import CANONICAL
from heldout.detect.order_neighbour import RELEASED
from heldout.detect.order_plan import JointPlan, plan_joint
from heldout.errors import InputError
from heldout.model.item_scores import (
    DOCUMENT,
    alternatives,
    joint_request,
    neighbour_request,
    shows_again,
)
from heldout.model.request import Request, Scorer
from heldout.model.scoring import Answers, score_requests
from heldout.model.tables import replace_dropped, replace_rows
from heldout.store import Dropped, Run

CONTEXT = 4096


@dataclass(frozen=True)
class JointReading:
    """What order-joint will read: a plan whose places count in ``items``."""

    plan: JointPlan
    items: tuple[Example, ...]


def plan_order_joint(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    *,
    budget: int,
    context: int = CONTEXT,
    interleaved: bool = False,
    seed: int = 0,
) -> JointReading:
    """Shards, shuffles and their cost in tokens, before anything is run."""
    answered = _answered(examples)
    before: Example | None = None
    requests = []
    for place in answered:
        one = examples[place]
        shown = interleaved and not shows_again(one, before)
        requests.append(joint_request(one.id, [one], interleaved=shown))
        before = one
    counts = scorer.count(requests)
    # An item the model cannot read (0 tokens) is in no document, in whatever order.
    read = [(place, count) for place, count in zip(answered, counts, strict=True) if count > 0]
    if not read:
        raise InputError("order-joint: this model can read none of the items as a plain document")
    clusters = [benchmark.clusters[place] for place, _ in read]
    tokens = [count for _, count in read]
    plan = plan_joint(tokens, clusters, budget=budget, context=context, seed=seed)
    return JointReading(plan, tuple(examples[place] for place, _ in read))


def score_order_joint(
    benchmark: Benchmark,
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    reading: JointReading,
    *,
    interleaved: bool = False,
    quiet: bool = False,
) -> int:
    """Write ``order_joint`` for this model; returns its rows."""
    plan = reading.plan
    orders: list[list[int | None]] = [
        [None, *range(plan.shuffles_of(shard))] for shard in range(len(plan.shards))
    ]

    def requests() -> Iterator[list[Request]]:
        for shard in range(len(plan.shards)):
            for order in orders[shard]:
                items = [reading.items[place] for place in plan.order(shard, order)]
                yield [joint_request(_name(shard, order), items, interleaved=interleaved)]

    answers = score_requests(
        scorer, requests(), run, f"order-joint/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading {model}'s shards in up to {1 + plan.shuffles} orders", sums_only=True,
        quiet=quiet,
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    lost = _truncated(answers)
    for shard in range(len(plan.shards)):
        names = {order: _name(shard, order) for order in orders[shard]}
        # An order that is missing would make the rest of its shard look likelier or less so.
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "model": model, "shard": shard, "logprob": answers.totals[name][0],
                    "permutation": CANONICAL if order is None else str(order),
                }
                for order, name in names.items()
            ]  # fmt: skip
    replace_dropped(run, "order-joint", model, [*answers.dropped.values(), *lost.values()])
    if not rows:
        raise _nothing("order-joint", answers, lost)
    return replace_rows(run, "order_joint", model, rows)


def score_order_neighbour(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    interleaved: bool = False,
    seed: int = 0,
    quiet: bool = False,
) -> int:
    """Write ``order_neighbour`` for this model; returns its rows."""
    places = _answered(examples)
    kept = [examples[place] for place in places]
    others = alternatives([benchmark.clusters[place] for place in places], seed=seed)
    if not others:
        raise InputError("order-neighbour: no item has another item near it to compare with")

    def conditions(place: int) -> dict[str, int]:
        return {RELEASED: place - 1} | {kept[other].id: other for other in others[place]}

    def requests() -> Iterator[list[Request]]:
        for place in others:
            yield [
                neighbour_request(
                    f"{place}/{other}", kept[other], kept[place], interleaved=interleaved
                )
                for other in conditions(place).values()
            ]

    answers = score_requests(
        scorer, requests(), run, f"order-neighbour/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading {model}'s items after others", sums_only=True, quiet=quiet,
    )  # fmt: skip
    lost = _truncated(answers)
    rows: list[dict[str, Any]] = []
    for place in others:
        names = {told: f"{place}/{other}" for told, other in conditions(place).items()}
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "benchmark_id": kept[place].id, "model": model, "condition": told,
                    "logprob": answers.totals[name][0],
                }
                for told, name in names.items()
            ]  # fmt: skip
    alone = [
        Dropped("order-neighbour", kept[place].id, "no other item in its block", "")
        for place in range(1, len(kept))
        if place not in others
    ]
    gone = [*answers.dropped.values(), *lost.values(), *alone]
    replace_dropped(run, "order-neighbour", model, gone)
    if not rows:
        raise _nothing("order-neighbour", answers, lost)
    return replace_rows(run, "order_neighbour", model, rows)


def _answered(examples: Sequence[Example]) -> list[int]:
    """Places of the items that have an answer: one without is not part of any document."""
    return [place for place, one in enumerate(examples) if (one.answer or "").strip()]


def _name(shard: int, order: int | None) -> str:
    return f"{shard}/{CANONICAL if order is None else order}"


def _truncated(answers: Answers) -> dict[str, Dropped]:
    detail = "the model read less than the whole document; give a smaller --context"
    return {
        name: Dropped("order", name, "truncated prompt", detail)
        for name, score in answers.scores.items()
        if score.truncated
    }


def _nothing(what: str, answers: Answers, lost: dict[str, Dropped]) -> InputError:
    why = next(iter([*answers.dropped.values(), *lost.values()]), None)
    told = f"{why.reason}: {why.detail}" if why else "nothing was asked"
    return InputError(f"{what}: no document could be scored whole ({told})")
