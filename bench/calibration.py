"""Does calibration keep its α on clean pictures, and from which planted share on does it see copies?

    python bench/calibration.py COLLECTION [--encoder pixels] [--benchmark 100] [--rounds 200]

Every round splits the collection at random into a benchmark and a corpus, so that both are of one kind
and nothing leaked; then a share of the benchmark is put into the corpus as re-saved, resized or trimmed
copies. Reported over rounds: the flag rate, and how often the test is significant. The second table
does the same with directions drawn at random, where the null is large enough for α = .01.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import open_corpus
from heldout.lab import TRANSFORMS, Collection, collect
from heldout.overlap.images.encoder import Encoder, open_encoder
from heldout.overlap.nearness.measure import COPY
from heldout.overlap.nearness.nearest import (
    TallMatrix,
    mean_group,
    nearest_in,
    null_similarities,
    related_pictures,
)
from heldout.overlap.nearness.threshold import flag_p, threshold
from heldout.stats import binomial_interval

Matrix = NDArray[np.float32]
PLANTED = ("jpeg-75", "rs-256", "crop-20")
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)


class Drawn(NamedTuple):
    benchmark: Matrix
    corpus: Matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection")
    parser.add_argument("--encoder", default="pixels")
    parser.add_argument("--benchmark", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    encoder = open_encoder(options.encoder)
    found = collect(open_corpus(options.collection))
    own, copies = _embedded(found, encoder)
    print(f"{len(own):,} pictures of {options.collection}; {encoder.identity}")
    print(f"{options.rounds} random splits, {options.benchmark} pictures as the benchmark\n")
    _table(
        lambda share: (
            _split(own, copies, options.benchmark, share, number)
            for number in range(options.rounds)
        ),
        (0.05, 0.1),
    )
    print("\n32-dimensional random directions, corpus 3,000, benchmark 300\n")
    _table(lambda share: (_random(share, number) for number in range(60)), (0.01, 0.05))


def _table(rounds: Callable[[float], Iterator[Drawn]], alphas: tuple[float, ...]) -> None:
    print("| planted share | α | flag rate | significant (p < .05, two-sided) | null groups of |")
    print("|--:|--:|--:|--:|--:|")
    for share in SHARES:
        drawn: list[Drawn] = list(rounds(share))
        for alpha in alphas:
            outcomes = [_outcome(one, alpha) for one in drawn]
            told = [one for one in outcomes if one is not None]
            if not told:
                print(f"| {share:.0%} | {alpha:g} | null too small | – | – |")
                continue
            rates, seen, groups = (np.array(column) for column in zip(*told, strict=True))
            error = rates.std(ddof=1) / np.sqrt(len(rates))
            low, high, *_ = binomial_interval(int(seen.sum()), len(seen))
            left = f" ({len(told)} rounds resolve α)" if len(told) < len(drawn) else ""
            print(
                f"| {share:.0%} | {alpha:g} | {rates.mean():.3f} ± {1.96 * error:.3f} | "
                f"{seen.mean():.2f} [{low:.2f}, {high:.2f}]{left} | {groups.mean():.1f} |"
            )


def _outcome(drawn: Drawn, alpha: float) -> tuple[float, bool, float] | None:
    null = null_similarities(drawn.corpus, encoder="e", duplicates=COPY)
    if len(null) < 5.0 * null.design_effect / alpha:
        return None
    tau = threshold(null, alpha)
    near = nearest_in(TallMatrix.of(drawn.corpus, 64 << 20), drawn.benchmark)
    labels = related_pictures(drawn.benchmark, near.neighbour, near.similarity)
    count = int((near.similarity > tau.value).sum())
    n = len(drawn.benchmark)
    p = flag_p(tau, count, n, mean_group([str(one) for one in labels]))
    return count / n, p < 0.05 and count > alpha * n, null.design_effect


def _embedded(found: Collection, encoder: Encoder) -> tuple[Matrix, Matrix]:
    """Every picture, and a copy of it under one of the planted transforms in turn."""
    own, copies = [], []
    for number, item in enumerate(found.items):
        picture = item.image.open()
        transform = TRANSFORMS[PLANTED[number % len(PLANTED)]]
        transform = transform if transform.applies_to(picture.size) else TRANSFORMS[PLANTED[0]]
        own.append(encoder.encode([picture])[0])
        copies.append(encoder.encode([transform(picture, key=item.digest)])[0])
    return np.stack(own), np.stack(copies)


def _split(own: Matrix, copies: Matrix, count: int, share: float, number: int) -> Drawn:
    order = np.random.default_rng([1, number]).permutation(len(own))
    chosen, rest = order[:count], order[count:]
    planted = copies[chosen[: round(share * count)]]
    return Drawn(own[chosen], np.concatenate([own[rest], planted]))


def _random(share: float, number: int) -> Drawn:
    rng = np.random.default_rng([2, number])
    drawn = rng.normal(size=(3300, 32)) * np.arange(1, 33) ** -0.5
    rows = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    benchmark, corpus = rows[:300], rows[300:]
    noisy = benchmark[: round(share * 300)]
    noisy = noisy + rng.normal(size=noisy.shape).astype(np.float32) * 0.02
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    return Drawn(benchmark, np.concatenate([corpus, noisy]))


if __name__ == "__main__":
    main()
