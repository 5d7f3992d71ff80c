"""Coverage of 95 % intervals of "all less non-leaked": cluster jackknife t against bootstraps.

    python bench/subset_means.py [--rounds 1500]

Clusters of 1 to 11 items with intra-class correlation one half leak whole with the given share; what
leaked is ``effect`` standard deviations easier. Prints how often each interval holds the true value.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from heldout.stats.contrast import subset_difference

Floats = NDArray[np.float64]
CASES = (
    (40, 0.3, 0.0, False),
    (40, 0.3, 1.0, False),
    (60, 0.3, 1.0, True),
    (96, 0.2, 0.5, False),
    (100, 0.12, 1.0, True),
    (300, 0.1, 1.0, True),
)
DRAWS = 499


def drawn(
    rng: np.random.Generator, count: int, share: float, effect: float, binary: bool
) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
    codes = np.repeat(np.arange(count), rng.integers(1, 12, count))
    leaked = (rng.random(count) < share)[codes]
    raw = rng.normal(size=count)[codes] + rng.normal(size=len(codes)) + effect * leaked
    return (raw > 0).astype(np.float64) if binary else raw, codes, leaked


def measure(totals: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Difference of two ratios and its linearised error, per row."""
    one, other = totals[:, 0] / totals[:, 1], totals[:, 2] / totals[:, 3]
    gradient = np.stack(
        [1 / totals[:, 1], -one / totals[:, 1], -1 / totals[:, 3], other / totals[:, 3]], axis=1
    )
    variance = np.einsum("ki,kij,kj->k", gradient, squares.reshape(-1, 4, 4), gradient)
    return one - other, np.sqrt(np.maximum(variance, 0))


def bootstraps(
    values: Floats, codes: NDArray[np.int64], leaked: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    count = int(codes.max()) + 1
    columns = (values, np.ones_like(values), values * ~leaked, ~leaked)
    table = np.stack([np.bincount(codes, c.astype(np.float64), count) for c in columns], axis=1)
    squares = (table[:, :, None] * table[:, None, :]).reshape(count, 16)
    times = rng.multinomial(count, np.full(count, 1 / count), DRAWS).astype(np.float64)
    value, error = (one[0] for one in measure(table.sum(0)[None], squares.sum(0)[None]))
    means, errors = measure(times @ table, times @ squares)
    sound = errors > 1e-12
    low, high = np.quantile((means[sound] - value) / errors[sound], [0.025, 0.975])
    bottom, top = np.quantile(means, [0.025, 0.975])
    return {
        "bootstrap percentiles": (float(bottom), float(top)),
        "bootstrap-t": (float(value - high * error), float(value - low * error)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1500)
    rounds = parser.parse_args().rounds
    for case in CASES:
        values, _, leaked = drawn(np.random.default_rng(0), 300_000, *case[1:])
        truth = float(values.mean() - values[~leaked].mean())
        rng = np.random.default_rng(1)
        held: dict[str, int] = {}
        tried = 0
        for _ in range(rounds):
            values, codes, leaked = drawn(rng, *case)
            found = subset_difference(
                values, np.ones_like(leaked), ~leaked, [str(code) for code in codes]
            )
            if found is None or found.interval is None:
                continue
            tried += 1
            intervals = {"jackknife t": (found.interval.low, found.interval.high)}
            intervals |= bootstraps(values, codes, leaked, rng)
            for name, (low, high) in intervals.items():
                held[name] = held.get(name, 0) + (low <= truth <= high)
        told = "  ".join(f"{name} {count / tried:.3f}" for name, count in held.items())
        print(f"clusters {case[0]}, share {case[1]}, effect {case[2]}, binary {case[3]}: {told}")


if __name__ == "__main__":
    main()
