"""The order tests' tables: shards read in released and shuffled order, items after other predecessors.

Shards are runs of whole clusters, and shuffles permute whole clusters: questions on one image stay
together in every order, otherwise the released order would be likelier because it keeps images together. The
cost of
order-joint in tokens is planned within a budget before anything is read.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark, Example
from heldout.errors import InputError
from heldout.model.item_scores import (
    DOCUMENT,
    alternatives,
    joint_request,
    neighbour_request,
    shows_again,
)
from heldout.model.request import Request, Scorer
from heldout.model.scoring import Answers, replace_dropped, replace_rows, score_requests
from heldout.store import Dropped, Run

CANONICAL = "canonical"  # the released order, in order_joint
AFTER_RELEASED = "released"  # an item after its own predecessor, in order_neighbour
CONTEXT = 4096
FEWEST_SHUFFLES = 4  # per shard; the exact p needs few, because every shard multiplies the orders
MOST_SHUFFLES = 50
WANTED_SHARDS = 50
# clusters that a shard should have: two clusters have only two orders, one of them the released
BLOCKS = 4


@dataclass(frozen=True)
class JointPlan:
    """``shards`` hold places in the released order; ``blocks`` the same, cluster by cluster."""

    shards: tuple[tuple[tuple[int, ...], ...], ...]
    shuffles: int
    tokens: int
    left_out: int  # items in shards that the budget does not reach, or that cannot be shuffled
    seed: int

    def order(self, shard: int, permutation: int | None) -> list[int]:
        """Places in the order they are read: released (None), or the numbered shuffle."""
        blocks = self.shards[shard]
        if permutation is None:
            return [place for block in blocks for place in block]
        chosen = _orders(len(blocks), self.shuffles, (self.seed, shard))[permutation]
        return [place for index in chosen for place in blocks[index]]

    def shuffles_of(self, shard: int) -> int:
        """The shuffles of a shard: few blocks have few orders, none is read twice, and the released one is not
        repeated."""
        return len(_orders(len(self.shards[shard]), self.shuffles, (self.seed, shard)))

    def sentence(self) -> str:
        message = (
            f"order-joint: {len(self.shards)} shards, released order and {self.shuffles} shuffles "
            f"each, {self.tokens:,} tokens to score"
        )
        return message + (f"; {self.left_out:,} items are left out" if self.left_out else "")


@functools.lru_cache(maxsize=4096)
def _orders(blocks: int, wanted: int, seed: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    """Different orders of so many blocks, never the released one: drawn without replacement."""
    most = math.factorial(min(blocks, 12)) - 1
    rng = np.random.default_rng(seed)
    if most <= 2 * wanted:
        every = list(itertools.permutations(range(blocks)))[1:]
        return tuple(every[index] for index in rng.permutation(len(every))[:wanted])
    orders: dict[tuple[int, ...], None] = {tuple(range(blocks)): None}
    while len(orders) <= wanted:
        orders[tuple(rng.permutation(blocks).tolist())] = None
    return tuple(orders)[1:]


def plan_joint(
    tokens: Sequence[int],
    clusters: Sequence[str],
    *,
    budget: int,
    context: int = CONTEXT,
    seed: int = 0,
) -> JointPlan:
    """``tokens`` per item (question, answer and image tokens) in released order; ``budget`` in tokens.

    As many shards as the clusters allow up to WANTED_SHARDS (more where the context requires it), and
    then as many shuffles as the budget allows. Where it does not allow FEWEST_SHUFFLES of everything,
    shards are left out, evenly along the order.
    """
    blocks = [
        tuple(place for place, _ in run)
        for _, run in groupby(enumerate(clusters), key=lambda pair: pair[1])
    ]
    sizes = [sum(tokens[place] for place in block) for block in blocks]
    total = sum(sizes)
    target = min(context, max(total / WANTED_SHARDS, BLOCKS * total / max(len(blocks), 1)))
    shards = _cut(blocks, sizes, target, context)
    usable = [shard for shard in shards if len(shard) >= 2]
    if not usable:
        raise InputError(
            f"no two neighbouring clusters fit into a context of {context:,} tokens: give a "
            f"longer context (the setting context), or use order-neighbour"
        )
    costs = [sum(tokens[place] for block in shard for place in block) for shard in usable]
    fewest = min(costs) * (1 + FEWEST_SHUFFLES)
    if budget < 2 * fewest:
        raise InputError(
            f"budget: {budget:,} tokens do not pay for two shards with {FEWEST_SHUFFLES} shuffles; "
            f"the smallest useful budget here is {2 * fewest:,}"
        )
    shuffles = int(min(MOST_SHUFFLES, max(FEWEST_SHUFFLES, budget // sum(costs) - 1)))
    kept = _affordable(costs, budget // (1 + shuffles))
    chosen = tuple(usable[index] for index in kept)
    spent = sum(costs[index] for index in kept) * (1 + shuffles)
    reached = sum(len(block) for shard in chosen for block in shard)
    return JointPlan(chosen, shuffles, spent, len(tokens) - reached, seed)


def _cut(
    blocks: Sequence[tuple[int, ...]], sizes: Sequence[int], target: float, context: int
) -> list[tuple[tuple[int, ...], ...]]:
    shards: list[tuple[tuple[int, ...], ...]] = []
    current: list[tuple[int, ...]] = []
    filled = before = 0
    for block, size in zip(blocks, sizes, strict=True):
        full = filled >= target and len(current) >= BLOCKS
        if current and (full or filled + size > context):
            shards.append(tuple(current))
            current, filled, before = [], 0, filled
        if size <= context:
            current.append(block)
            filled += size
    if len(current) == 1 and shards and before + filled <= context:
        current = [*shards.pop(), *current]  # a cluster on its own could not be shuffled
    if current:
        shards.append(tuple(current))
    return shards


def _affordable(costs: Sequence[int], budget: int) -> list[int]:
    """As many shards as the budget pays for, spread evenly along the order."""
    count = len(costs)
    while count > 1:
        kept = np.unique(np.linspace(0, len(costs) - 1, count).round().astype(int))
        if sum(costs[index] for index in kept) <= budget:
            return [int(index) for index in kept]
        count -= 1
    return [int(np.argmin(costs))]


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
        example = examples[place]
        shown = interleaved and not shows_again(example, before)
        requests.append(joint_request(example.id, [example], interleaved=shown))
        before = example
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
        scorer,
        requests(),
        run,
        f"order-joint/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading groups of items to {model} in up to {1 + plan.shuffles} orders",
        sums_only=True,
        quiet=quiet,
    )
    rows: list[dict[str, Any]] = []
    lost = _truncated(answers)
    for shard in range(len(plan.shards)):
        names = {order: _name(shard, order) for order in orders[shard]}
        # A missing order would bias the comparison within its shard.
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "model": model,
                    "shard": shard,
                    "logprob": answers.totals[name][0],
                    "permutation": CANONICAL if order is None else str(order),
                }
                for order, name in names.items()
            ]
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
        return {AFTER_RELEASED: place - 1} | {kept[other].id: other for other in others[place]}

    def requests() -> Iterator[list[Request]]:
        for place in others:
            yield [
                neighbour_request(
                    f"{place}/{other}", kept[other], kept[place], interleaved=interleaved
                )
                for other in conditions(place).values()
            ]

    answers = score_requests(
        scorer,
        requests(),
        run,
        f"order-neighbour/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading {model}'s items after others",
        sums_only=True,
        quiet=quiet,
    )
    lost = _truncated(answers)
    rows: list[dict[str, Any]] = []
    for place in others:
        names = {message: f"{place}/{other}" for message, other in conditions(place).items()}
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "benchmark_id": kept[place].id,
                    "model": model,
                    "condition": message,
                    "logprob": answers.totals[name][0],
                }
                for message, name in names.items()
            ]
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
    return [place for place, example in enumerate(examples) if (example.answer or "").strip()]


def _name(shard: int, order: int | None) -> str:
    return f"{shard}/{CANONICAL if order is None else order}"


def _truncated(answers: Answers) -> dict[str, Dropped]:
    detail = (
        "the model read less than the whole document; give a smaller value for the setting context"
    )
    return {
        name: Dropped("order", name, "truncated prompt", detail)
        for name, score in answers.scores.items()
        if score.truncated
    }


def _nothing(what: str, answers: Answers, lost: dict[str, Dropped]) -> InputError:
    why = next(iter([*answers.dropped.values(), *lost.values()]), None)
    message = f"{why.reason}: {why.detail}" if why else "nothing was asked"
    return InputError(f"{what}: no document could be scored whole ({message})")
