"""What runs the numbers: forward passes of one backend, and what is read off their logits.

Prompts, spans, groups, batches and replies know nothing else of a backend. Logits stay what the backend
makes of them (on its device, in its type) until one of the last four methods turns them into numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.model.local.layout import Features, Row

Made = TypeVar("Made")


@dataclass(frozen=True)
class Prefix:
    """What a model keeps of tokens it has read: keys and values, how many, and where the next one
    stands (pictures take less room in multi-dimensional positions than in the sequence)."""

    cache: Any
    length: int
    shift: int | None


class Passes(Protocol):
    """``whole`` and ``after`` give one line of logits per scored token, in the rows' order."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens that end a reply."""
        ...

    def whole(self, rows: Sequence[Row], features: Features, *, share: bool = True) -> Any:
        """Full sequences; every row shows the same pictures."""
        ...

    def read(self, ids: Sequence[int], features: Features) -> Prefix | None:
        """The common beginning of a group, read once; None where what is kept cannot be shared."""
        ...

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        """What follows the prefix in each row."""
        ...

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """A cache of ``rows`` replies that begin with the prefix; ``step`` writes into it."""
        ...

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        """Logits after the next tokens of every row, all of one length, that stand from ``start`` on."""
        ...

    def generate(self, row: Row, features: Features, most: int) -> tuple[list[int], Any]:
        """One row, greedily and from its beginning: its tokens, and the logits of the first."""
        ...

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        """log p of each target, and the mean and standard deviation of log p over the vocabulary."""
        ...

    def likeliest(self, logits: Any) -> list[int]:
        """The token with the largest logit, line by line."""
        ...

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        """log p of every token of the vocabulary, of one line."""
        ...

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        """What ``run`` returns; None where the memory gave out, which is free again afterwards."""
        ...


# Which rows go through the model together, and what to do when they do not fit.


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


# log p of a token, and the mean and standard deviation of log p over the whole vocabulary.
#
# One pass over the logits in vocabulary tiles: with x the logit less the largest one, Σeˣ, Σx·eˣ and Σx²·eˣ
# give all three. No second copy of the size of the vocabulary is made.


TILE = 16_384
# A vocabulary's unused entries may stand at minus infinity; 0 · ∞ is not a number, 0 · 10⁴ is 0.
_LOWEST = -1e4


class Moments(NamedTuple):
    logprob: Any
    mu: Any
    sigma: Any


def moments(logits: Any, targets: Any, *, tile: int = TILE) -> Moments:
    """``logits`` of shape (positions, vocabulary), ``targets`` the token at each; float64 results."""
    import torch

    top = logits.amax(-1, keepdim=True).float()
    sums = torch.zeros((3, len(logits)), dtype=torch.float64, device=logits.device)
    for start in range(0, logits.shape[-1], tile):
        x = (logits[:, start : start + tile].float() - top).clamp_(min=_LOWEST)
        weight = x.exp()
        sums[0] += weight.sum(-1, dtype=torch.float64)
        sums[1] += weight.mul_(x).sum(-1, dtype=torch.float64)
        sums[2] += weight.mul_(x).sum(-1, dtype=torch.float64)
    log_total = sums[0].log()
    mean = sums[1] / sums[0]
    variance = (sums[2] / sums[0] - mean.square()).clamp_(min=0)
    chosen = logits.gather(-1, targets[:, None]).double() - top.double()
    return Moments(chosen[:, 0] - log_total, mean - log_total, variance.sqrt())


# Rows that show the same picture: the part of the model that looks at it looks once.


@contextlib.contextmanager
def one_look(model: Any, name: str | None, rows: int) -> Iterator[None]:
    """Within, the vision tower called ``name`` is given the first row's pictures for all ``rows``."""
    tower = None
    if name is not None and rows > 1:
        tower = getattr(model, name, None) or getattr(getattr(model, "model", None), name, None)
    if tower is None:
        yield
        return

    def first(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if args:
            return (args[0][: len(args[0]) // rows], *args[1:]), kwargs
        pixels = kwargs["pixel_values"]
        return args, {**kwargs, "pixel_values": pixels[: len(pixels) // rows]}

    def every(_module: Any, _args: Any, output: Any) -> Any:
        for key, value in output.items():
            if hasattr(value, "repeat"):
                output[key] = value.repeat(rows, *([1] * (value.dim() - 1)))
        return output

    hooks = [
        tower.register_forward_pre_hook(first, with_kwargs=True),
        tower.register_forward_hook(every),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
