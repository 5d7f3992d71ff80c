"""What order-joint will cost before it runs: shards, shuffles and tokens within a budget.

Shards are runs of whole clusters, and shuffles permute whole clusters: questions on one image stay
together in every order, else the released order would win by keeping images together.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from heldout.errors import InputError

FEWEST_SHUFFLES = 4  # per shard; the exact p needs few, because every shard multiplies the orders
MOST_SHUFFLES = 50
WANTED_SHARDS = 50
BLOCKS = 4  # clusters a shard should have: two have two orders, and one of those is the released


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
        """Few blocks have few orders: none is read twice, and the released one is not read again."""
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
    context: int = 4096,
    seed: int = 0,
) -> JointPlan:
    """``tokens`` per item (question, answer and image tokens) in released order; ``budget`` in tokens.

    As many shards as the clusters allow up to WANTED_SHARDS (more where the context asks for it), and
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
            f"no two neighbouring clusters fit into a context of {context:,} tokens: give a longer "
            f"--context, or use order-neighbour"
        )
    costs = [sum(tokens[place] for block in shard for place in block) for shard in usable]
    fewest = min(costs) * (1 + FEWEST_SHUFFLES)
    if budget < 2 * fewest:
        raise InputError(
            f"--budget {budget:,} tokens does not pay for two shards with {FEWEST_SHUFFLES} shuffles; "
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
