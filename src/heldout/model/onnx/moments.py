"""log p of a token, mean and standard deviation of log p over the vocabulary: local/moments.py in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOST = 1 << 23  # numbers of a copy: 32 MB
# A vocabulary's unused entries may stand at minus infinity; 0 · ∞ is not a number, 0 · 10⁴ is 0.
_LOWEST = np.float32(-1e4)


def moments(logits: NDArray[np.float32], targets: Sequence[int]) -> NDArray[np.float64]:
    """``logits`` of shape (positions, vocabulary) → (positions, 3)."""
    step = max(1, _MOST // max(1, logits.shape[-1]))
    parts = [
        _moments(logits[at : at + step], np.asarray(targets[at : at + step], np.int64))
        for at in range(0, len(logits), step)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 3))


def _moments(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    top = logits.max(-1, keepdims=True)
    x = np.maximum(logits - top, _LOWEST)
    weight = np.exp(x)
    total = weight.sum(-1, dtype=np.float64)
    weight *= x
    mean = weight.sum(-1, dtype=np.float64) / total
    weight *= x
    spread = np.maximum(weight.sum(-1, dtype=np.float64) / total - mean**2, 0)
    chosen = np.take_along_axis(logits, targets[:, None], -1).astype(np.float64) - top
    whole = np.log(total)
    return np.stack([chosen[:, 0] - whole, mean - whole, np.sqrt(spread)], 1)
