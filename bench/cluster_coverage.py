"""How often the interval of a rate over few articles covers the true rate, and how wide it is.

    python bench/cluster_coverage.py [--runs 1000] [--seed 0]

Articles differ in size (lognormal) and in their own rate (beta, with an intraclass correlation). Prints
a Markdown table: the interval of `heldout synth` beside the one that takes an article to be one
observation.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from heldout.stats import Interval, cluster_rate_interval
from heldout.synth import cluster_rate

SIZES, RATES, CORRELATIONS, SPREADS = ((9, 7), (20, 5)), (0.5, 0.2, 0.05), (0.05, 0.3), (0.8, 1.3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    print(
        "| articles | items each | spread of sizes | rate | correlation | covers | width "
        "| one each: covers | width |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    cases = itertools.product(SIZES, SPREADS, RATES, CORRELATIONS)
    for (articles, items), spread, rate, correlation in cases:
        covered, width = np.zeros(2), np.zeros(2)
        for _ in range(given.runs):
            hits, clusters = _drawn(articles, items, spread, rate, correlation, rng)
            found = cluster_rate(hits, clusters)["interval"]
            assert found is not None
            one_each: Interval = cluster_rate_interval(hits, clusters)
            bounds = np.asarray([found, [one_each.low, one_each.high]])
            covered += (bounds[:, 0] <= rate) & (rate <= bounds[:, 1])
            width += bounds[:, 1] - bounds[:, 0]
        shares, widths = covered / given.runs, width / given.runs
        print(
            f"| {articles} | {items} | {spread} | {rate} | {correlation} "
            f"| {shares[0]:.1%} | {widths[0]:.2f} | {shares[1]:.1%} | {widths[1]:.2f} |"
        )


def _drawn(
    articles: int,
    items: int,
    spread: float,
    rate: float,
    correlation: float,
    rng: np.random.Generator,
) -> tuple[list[float], list[str]]:
    mean = np.log(items) - spread**2 / 2
    sizes = np.maximum(1, rng.lognormal(mean, spread, articles).astype(int))
    own = (1 - correlation) / correlation
    rates = rng.beta(rate * own, (1 - rate) * own, articles)
    hits = [
        float(hit) for size, one in zip(sizes, rates, strict=True) for hit in rng.random(size) < one
    ]
    return hits, [str(number) for number, size in enumerate(sizes) for _ in range(size)]


if __name__ == "__main__":
    main()
