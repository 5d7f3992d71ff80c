"""Numbers of a model's next-token distributions: log p with its moments, and Rényi entropies over a slice of positions.

Both are one pass over the logits in vocabulary tiles. Of entropies: with x the logit less the largest one, Σ eˣ,
Σ x·eˣ, Σ eˣᐟ² and Σ e²ˣ give the orders ½, 1, 2 and ∞.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ORDERS = (0.5, 1.0, 2.0, float("inf"))
#: of a slice's positions, the most uncertain ones whose mean is taken; 0 is the single largest
SHARES = (0.0, 0.1, 1.0)
SLICES = ("image", "question", "answer")


# log p of a token, and the mean and standard deviation of log p over the whole vocabulary.
#
# One pass over the logits in vocabulary tiles: with x the logit less the largest one, Σeˣ, Σx·eˣ and Σx²·eˣ
# give all three. No second copy of the size of the vocabulary is made.


_TILE = 16_384
# A vocabulary's unused entries may stand at minus infinity; 0 · ∞ is not a number, 0 · 10⁴ is 0.
_LOWEST = -1e4


class Moments(NamedTuple):
    logprob: Any
    mu: Any
    sigma: Any


def moments(logits: Any, targets: Any, *, tile: int = _TILE) -> Moments:
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


def renyi(logits: Any, *, tile: int = _TILE) -> Any:
    """``logits`` of shape (positions, vocabulary) → (positions, orders), in float64."""
    import torch

    top = logits.amax(-1, keepdim=True).float()
    sums = torch.zeros((4, len(logits)), dtype=torch.float64, device=logits.device)
    for start in range(0, logits.shape[-1], tile):
        x = (logits[:, start : start + tile].float() - top).clamp_(min=_LOWEST)
        root = (x / 2).exp()
        weight = root * root
        sums[0] += weight.sum(-1, dtype=torch.float64)
        sums[1] += root.sum(-1, dtype=torch.float64)
        sums[2] += (weight * weight).sum(-1, dtype=torch.float64)
        sums[3] += weight.mul_(x).sum(-1, dtype=torch.float64)
    log_total = sums[0].log()
    return torch.stack(
        [
            2 * sums[1].log() - log_total,
            log_total - sums[3] / sums[0],
            2 * log_total - sums[2].log(),
            log_total,
        ],
        1,
    ).clamp_(min=0)


def largest_means(entropies: NDArray[np.float64]) -> NDArray[np.float64]:
    """(positions, orders) → (orders, shares): the mean of the largest entropies, of at least one position."""
    count = len(entropies)
    if not count:
        return np.full((len(ORDERS), len(SHARES)), np.nan)
    falling = -np.sort(-entropies, axis=0)
    means = [falling[: max(1, int(count * share))].mean(0) for share in SHARES]
    return np.stack(means, axis=1)
