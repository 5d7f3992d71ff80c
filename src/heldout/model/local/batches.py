"""Which rows go through the model together, and what to do when they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from heldout.model.local.passes import Passes
from heldout.model.local.rows import Row

BATCH_TOKENS = 16_384  # rows × longest row of one forward pass
# Scored places of one batch: each has a line of logits as wide as the vocabulary.
MOST_SCORED = 2048

Numbered = tuple[int, Row]


def batches(rows: Sequence[Numbered], budget: int) -> Iterator[list[Numbered]]:
    """Rows of like length together, so that rows × longest stays within ``budget`` tokens."""
    batch: list[Numbered] = []
    scored = 0
    for number, row in sorted(rows, key=lambda pair: -pair[1].length):
        widest = batch[0][1].length if batch else row.length
        if batch and ((len(batch) + 1) * widest > budget or scored + len(row.scored) > MOST_SCORED):
            yield batch
            batch, scored = [], 0
        batch.append((number, row))
        scored += len(row.scored)
    if batch:
        yield batch


def halving(
    batch: list[Numbered], run: Callable[[list[Numbered]], Any], passes: Passes
) -> Iterator[tuple[list[Numbered], Any]]:
    """Each part of the batch with what ``run`` gave for it; None for a row that does not fit alone."""
    given = passes.fitting(lambda: run(batch))
    if given is not None or len(batch) == 1:
        yield batch, given
        return
    middle = len(batch) // 2
    yield from halving(batch[:middle], run, passes)
    yield from halving(batch[middle:], run, passes)


def common_prefix(rows: Sequence[Row]) -> int:
    """How many tokens all rows begin with, leaving each the place that predicts its first scored one."""
    first, last = min(row.ids for row in rows), max(row.ids for row in rows)
    shared = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        shared += 1
    return min(shared, *(row.scored[0] - 1 for row in rows))
