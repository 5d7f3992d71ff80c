"""Several tests of one model together: how often a clean one fires, and what is gained on contaminated ones.

    python bench/combined.py [--cells 1000] [--planted 300] [--public 3]

The tests are of the same simulated answers (about 180 questions on 40 images, one reference, twins easier; a form suits
all questions about an image or none), so that they depend on one another. Beside each test alone and `combined`, which
flips whole images through all of them, stand two rules that know only p: Holm's smallest and Cauchy's combination
(Liu and Xie 2020, of one-sided p). Prints a Markdown table: p ≤ .05 on either side for clean models, and the share
called seen by planted dose. What images add to each test is computed from arrays; the first ``--public`` cells of each
dose are also given to the detectors, which have to say the same.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from heldout.detect import detectors
from heldout.detect.behaviour.combined import combine
from heldout.lab.power.conform import target_finding
from heldout.lab.power.planted_answers import (
    ASKED,
    BASELINE,
    TARGET,
    PlantedDraw,
    PlantedForm,
    planted_answers,
    planted_draw,
)
from heldout.stats import adjust, binomial_band, cluster_sums, flip_test, within_places

ALPHA = 0.05
PERMUTATIONS = 999
DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
COMBINED = ("twin-margin", "option-margin")
Floats = NDArray[np.float64]


def image_sums(draw: PlantedDraw) -> dict[str, Floats]:
    """By detector, what each image adds to the target's drop less the baseline's."""
    forms = {(form.model, form.variant): form for form in draw.forms}
    old = forms[TARGET, "original"].place
    new = forms[TARGET, "twin"].place
    rows = np.arange(len(old))

    def less(values: dict[str, Floats]) -> Floats:
        return values[TARGET] - values[BASELINE]

    def right(variant: str) -> Floats:
        return less({m: (forms[m, variant].outcome == "right").astype(float) for m in _BOTH})

    def margin(variant: str, first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        chances = {m: np.exp(forms[m, variant].logprobs) for m in _BOTH}
        return less({m: (1 + p[rows, first] - p[rows, second]) / 2 for m, p in chances.items()})

    def chance(variant: str) -> Floats:
        def of(form: PlantedForm) -> Floats:
            return np.asarray(np.exp(form.logprobs)[rows, form.place], dtype=np.float64)

        return less({m: of(forms[m, variant]) for m in _BOTH})

    turned = ["original", *sorted({v for _, v in forms if v.startswith("rotation-")})]
    placed = {
        "option-order": [right(variant) for variant in turned],
        "option-margin": [chance(variant) for variant in turned],
    }
    items = np.tile(rows, len(turned))
    places = np.concatenate([forms[TARGET, variant].place for variant in turned])
    released = np.repeat([variant == "original" for variant in turned], len(rows))
    values = {
        "twin-drop": right("original") - right("twin"),
        "twin-margin": margin("original", old, new) - margin("twin", new, old),
        "choice-confusion": right("original") - right("confused-choices"),
        "slot-guess": right("slot") - right("slot-paraphrase"),
    }
    sums = {name: cluster_sums(value, draw.codes.tolist())[0] for name, value in values.items()}
    for name, outcomes in placed.items():
        left = within_places(np.concatenate(outcomes), released, items.tolist(), places.tolist())
        assert left is not None
        codes = np.tile(draw.codes, len(turned)).tolist()
        sums[name] = cluster_sums(left[0] * left[1], codes)[0]
    return sums


_BOTH = (TARGET, BASELINE)


def shares(dose: float, cells: int, public: int) -> tuple[dict[str, float], dict[str, float]]:
    """Called seen, and p ≤ α on either side."""
    seen: Counter[str] = Counter()
    either: Counter[str] = Counter()
    for cell in range(cells):
        seed = cell if dose == 0 else 10_000 + cell
        draw = planted_draw(seed, dose=dose, easier=1.0, together=1.0, models=_BOTH)
        sums = image_sums(draw)
        tests = {
            name: (flip_test(each, permutations=PERMUTATIONS, seed=cell).p, float(each.sum()))
            for name, each in sums.items()
        }
        settings = ASKED.model_copy(update={"seed": cell, "permutations": PERMUTATIONS})
        parts = {name: dict(enumerate(sums[name].tolist())) for name in COMBINED}
        together = combine({k: {str(i): x for i, x in v.items()} for k, v in parts.items()})
        assert together is not None
        test = together.tested(settings)
        tests["combined"] = test.p, test.value
        single = [tests[name] for name in COMBINED]
        smallest = min(adjust([p for p, _ in single], "holm"))
        strongest = min(single)[1]
        tests["Holm's smallest"] = smallest, strongest
        tests["Cauchy's combination"] = 2 * min(_cauchy(single), 0.5), 1.0
        for name, (p, value) in tests.items():
            seen[name] += p <= ALPHA and value > 0
            either[name] += p <= ALPHA
        if cell < public:
            _confirm(seed, dose, settings, sums, tests)
    return (
        {name: count / cells for name, count in seen.items()},
        {name: count / cells for name, count in either.items()},
    )


def _confirm(seed: int, dose: float, settings, sums, tests) -> None:  # type: ignore[no-untyped-def]
    """The detectors say the same of the tables."""
    tables = planted_answers(seed, dose=dose, easier=1.0, together=1.0)
    for name in (*sums, "combined"):
        finding = target_finding(detectors()[name], tables, settings)
        p, value = tests[name]
        assert finding.p is not None
        # Permutations are drawn in another order of images: p agrees to their noise.
        assert abs(finding.p - p) < 0.06, (name, finding.p, p)
        assert np.sign(finding.effect.value) == np.sign(value), name


def _cauchy(tests: list[tuple[float, float]]) -> float:
    """Of the one-sided p of each test."""
    one_sided = np.asarray([p / 2 if value > 0 else 1 - p / 2 for p, value in tests])
    return float(0.5 - np.arctan(np.mean(np.tan((0.5 - one_sided) * np.pi))) / np.pi)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=1000, help="clean ones")
    parser.add_argument("--planted", type=int, default=300, help="for each dose")
    parser.add_argument("--public", type=int, default=3)
    options = parser.parse_args()
    low, high = binomial_band(options.cells, ALPHA)
    clean, either = shares(0.0, options.cells, options.public)
    planted = [shares(dose, options.planted, options.public)[0] for dose in DOSES[1:]]
    print(
        f"{options.cells:,} clean cells, {options.planted} for each dose, at most {PERMUTATIONS} "
        f"permutations; 99 % band of p ≤ .05: {low / options.cells:.3f}–{high / options.cells:.3f}\n"
    )
    doses = " | ".join(f"seen, dose {dose:g}" for dose in DOSES)
    print(f"| test | clean: p ≤ .05 | {doses} |")
    print("|---|" + "--:|" * (len(DOSES) + 1))
    for name in clean:
        cells = [column.get(name, 0.0) for column in (clean, *planted)]
        print(f"| {name} | {either[name]:.3f} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
