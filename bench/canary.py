"""Planted items: how often a clean model is flagged, and how much has to be remembered to be found.

    python bench/canary.py [--keys 20000]

Prints two Markdown tables. Clean models answer as their habits say, and only keys are drawn. The power is exact:
who remembers a share of the planted items answers these right and the others by chance.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from heldout.cure import CanarySettings, false_positive_probability
from heldout.cure.canary import drawn_place

HABITS = {
    "always A": (1.0, 0.0, 0.0, 0.0),
    "A in 7 of 10": (0.7, 0.1, 0.1, 0.1),
    "any option": (0.25, 0.25, 0.25, 0.25),
}
LEVELS = (0.05, 0.01, 0.001)
SHARES = (0.1, 0.2, 0.3, 0.5, 0.75)
PLANTED = ((12, 0), (24, 0), (24, 8), (48, 16), (100, 20))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=20_000)
    keys = parser.parse_args().keys
    settings = CanarySettings()
    items, marks, options = settings.items, settings.marks, settings.options
    table = {
        (hits, activated): false_positive_probability(hits, items, activated, marks, options)
        for hits in range(items + 1)
        for activated in range(marks + 1)
    }
    print(f"{items} items, {marks} marks, {options} options; {keys:,} keys for each model\n")
    print(f"| clean model answers | {' | '.join(f'p ≤ {level:g}' for level in LEVELS)} |")
    print("|---|" + "--:|" * len(LEVELS))
    names = [f"item {n}" for n in range(items)] + [f"mark {n}" for n in range(marks)]
    for habit, chances in HABITS.items():
        rng = np.random.default_rng(0)
        places = rng.choice(options, items + marks, p=chances)
        found = []
        for seed in range(keys):
            right = [
                drawn_place(seed, name, options) == place
                for name, place in zip(names, places, strict=True)
            ]
            found.append(table[sum(right[:items]), sum(right[items:])])
        shares = [f"{np.mean(np.asarray(found) <= level):.4f}" for level in LEVELS]
        print(f"| {habit} | {' | '.join(shares)} |", flush=True)
    print(f"\n| planted, level {settings.level:g} | {' | '.join(f'{s:.0%}' for s in SHARES)} |")
    print("|---|" + "--:|" * len(SHARES))
    for items, marks in PLANTED:
        cells = [f"{_power(items, marks, options, s, settings.level):.2f}" for s in SHARES]
        print(f"| {items} items, {marks} marks | {' | '.join(cells)} |", flush=True)


def _power(items: int, marks: int, options: int, share: float, level: float) -> float:
    """``share`` of items and marks is remembered."""
    chance = share + (1 - share) / options
    return float(
        sum(
            stats.binom.pmf(hits, items, chance) * stats.binom.pmf(activated, marks, chance)
            for hits in range(items + 1)
            for activated in range(marks + 1)
            if false_positive_probability(hits, items, activated, marks, options) <= level
        )
    )


if __name__ == "__main__":
    main()
