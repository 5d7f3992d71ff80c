"""log p of a token, and the mean and standard deviation of log p over the whole vocabulary.

One pass over the logits in vocabulary tiles: with x the logit less the largest one, Σeˣ, Σx·eˣ and Σx²·eˣ
give all three. No second copy of the size of the vocabulary is made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
