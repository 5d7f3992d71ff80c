"""Several tests of one model together: how often a clean one fires, and what is gained on contaminated ones.

    python bench/combined.py [--cells 500] [--planted 60]

The tests are of the same simulated answers (about 180 questions on 40 images, one reference, twins easier; a form suits
all questions about an image or none), so that they depend on one another. Beside each test alone and `combined`, which
flips whole images through all of them, stand two rules that know only p: Holm's smallest and Cauchy's combination
(Liu and Xie 2020, of one-sided p). Prints a Markdown table of the share called seen, by planted dose.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import numpy as np

from heldout.detect.behaviour.combined import CombinedSigns, measure
from heldout.lab.power.planted_answers import ASKED, BASELINE, TARGET, planted_answers
from heldout.stats import adjust, binomial_band, flip_test

ALPHA = 0.05
DOSES = (0.0, 0.25, 0.5, 1.0)


def shares(dose: float, cells: int) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for cell in range(cells):
        tables = planted_answers(
            cell if dose == 0 else 10_000 + cell,
            dose=dose,
            easier=1.0,
            together=1.0,
            models=(TARGET, BASELINE),
        )
        settings = ASKED.model_copy(update={"seed": cell, "permutations": 999})
        measured = measure(tables, settings, TARGET, controls=False)
        assert isinstance(measured, CombinedSigns)
        single: dict[str, tuple[float, float]] = {}
        for name, sums in measured.parts.items():
            values = np.asarray(list((sums or {}).values()))
            single[name] = flip_test(values, permutations=999, seed=cell).p, float(values.sum())
        test = measured.main.tested(settings)
        counts["combined"] += test.p <= ALPHA and test.value > 0
        counts["combined, either side"] += test.p <= ALPHA
        smallest = dict(zip(single, adjust([p for p, _ in single.values()], "holm"), strict=True))
        counts["Holm"] += any(smallest[name] <= ALPHA and single[name][1] > 0 for name in single)
        counts["Cauchy"] += _cauchy(list(single.values())) <= ALPHA / 2
        for name, (p, value) in single.items():
            counts[name] += p <= ALPHA and value > 0
            counts[f"{name}, either side"] += p <= ALPHA
        if (cell + 1) % 50 == 0:
            print(f"dose {dose:g}, {cell + 1} cells: {dict(counts)}", file=sys.stderr, flush=True)
    return {name: count / cells for name, count in counts.items()}


def _cauchy(tests: list[tuple[float, float]]) -> float:
    """Of the one-sided p of each test."""
    one_sided = np.asarray([p / 2 if value > 0 else 1 - p / 2 for p, value in tests])
    return float(0.5 - np.arctan(np.mean(np.tan((0.5 - one_sided) * np.pi))) / np.pi)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=500, help="clean ones")
    parser.add_argument("--planted", type=int, default=60, help="for each dose")
    options = parser.parse_args()
    low, high = binomial_band(options.cells, ALPHA)
    print(
        f"{options.cells} clean cells, {options.planted} for each dose; 99 % band of p ≤ .05, either side: "
    )
    print(f"{low / options.cells:.3f}–{high / options.cells:.3f}", flush=True)
    columns = {}
    for dose in DOSES:
        columns[dose] = shares(dose, options.cells if dose == 0 else options.planted)
    print(f"| called seen | {' | '.join(f'dose {dose:g}' for dose in DOSES)} |")
    print("|---|" + "--:|" * len(DOSES))
    for name in columns[0.0]:
        cells = [f"{columns[dose].get(name, 0.0):.3f}" for dose in DOSES]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
