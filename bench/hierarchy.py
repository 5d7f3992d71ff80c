"""One model × item analysis of twins beside the verdict's own rule: where would a new clean model lie?

    python bench/hierarchy.py [--replicates 200] [--only TEXT]
    python bench/hierarchy.py --lab RUNS [--drawn]      # the lab's trained models instead of recipes
    python bench/hierarchy.py --lab RUNS --spread       # how far their clean families differ

A drop from original to twin is the sum of what all models share on an item, what its family adds, and chance.
Items and families are both samples: the drops of model and references have a joint covariance over items (they
answer the same ones), and families add a variance that three of them hardly know. It is integrated out under a
half-Cauchy prior, which gives the chance that a new clean model drops as much as this one. Compared with the rule of
the verdict (the difference to each reference significant, and above Student's prediction interval of family
means) on the recipes of `verdict_recipes.py`, with the verdict's other controls and without them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.detect import DetectSettings, ScoreTables
from heldout.lab.power.models import CLEAN, narrowed, read_grid
from heldout.stats import binomial_interval
from heldout.verdict import Claim
from heldout.verdict._model_claims import BASELINE
from heldout.verdict.controls.behaviour import SPREAD
from lab_verdicts import KINDS, answers_of, claimed, jobs, kind_of, looked
from verdict_recipes import (
    MODEL,
    Recipe,
    alike,
    harder,
    published,
    remembered,
    unanswerable,
)
from verdicts import counted_claims, examined

Floats = NDArray[np.float64]
LEVEL = 0.025  # of one side, as the prediction interval of the verdict
SCALES = (0.02, 0.05, 0.1)  # of the prior: half of it lies below, in accuracy
KEYS = ("rule", *(f"{kind} {scale}" for kind in ("alone", "beside") for scale in SCALES))
GRID = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 200)])
BY_FAMILIES = (
    ("harder by an SD of .37", harder, False),
    ("75 % unanswerable, model better by .8", partial(unanswerable, share=0.75, better=0.8), False),
    ("10 % of the answers remembered", partial(remembered, known=0.1), True),
    ("20 % of the answers remembered", partial(remembered, known=0.2), True),
)
RECIPES = (
    *(
        Recipe(f"{name}, {count} families", partial(make, references=count, lineages=count), seen)
        for count in (3, 6)
        for name, make, seen in BY_FAMILIES
    ),
    Recipe("published rates, 3 families", partial(published, lineages=3)),
    Recipe("25 % show the original, model better by .8, 3 families", alike),
)


def drops(
    tables: ScoreTables, settings: DetectSettings, model: str = MODEL
) -> tuple[Floats, Floats]:
    """Mean drops of the model and of each family, and their covariance over images."""
    answers = tables.answers
    assert answers is not None
    families: dict[str, list[str]] = {model: [model]}
    for name in settings.baselines:
        families.setdefault(settings.family_of(name), []).append(name)
    right = answers.filter(pl.col("variant").is_in(["original", "twin"])).with_columns(
        value=(pl.col("outcome") == "right").cast(pl.Float64)
        * pl.when(pl.col("variant") == "original").then(1.0).otherwise(-1.0)
    )
    by_item = (
        right.group_by("benchmark_id", "model")
        .agg(pl.col("value").sum(), forms=pl.col("variant").n_unique())
        .filter(pl.col("forms") == 2)  # an item without a twin has no drop
        .drop("forms")
    )
    wide = by_item.pivot(on="model", index="benchmark_id", values="value").drop_nulls()
    wide = wide.join(tables.items.select("benchmark_id", "cluster"), on="benchmark_id")
    columns = [wide.select(pl.mean_horizontal(names)).to_series() for names in families.values()]
    values = np.stack([column.to_numpy() for column in columns], axis=1)
    codes = np.unique(wide["cluster"].to_numpy(), return_inverse=True)[1]
    centred = values - values.mean(0)
    sums = np.stack([np.bincount(codes, weights=column) for column in centred.T], axis=1)
    images = len(sums)
    return values.mean(0), sums.T @ sums / len(values) ** 2 * images / (images - 1)


def predictive_p(values: Floats, covariance: Floats, scale: float) -> float:
    """The chance that a new clean model drops at least as much, given the families; the model stands first."""
    mine, theirs = values[0], values[1:]
    ones = np.ones(len(theirs))
    weights, tails = [], []
    for spread in GRID:
        whole = covariance + spread**2 * np.eye(len(values))
        inverse = np.linalg.inv(whole[1:, 1:])
        precision = float(ones @ inverse @ ones)
        centre = float(ones @ inverse @ theirs) / precision
        rest = theirs - centre
        _, logdet = np.linalg.slogdet(whole[1:, 1:])
        # marginal likelihood of the families with a flat prior of the mean
        weights.append(-0.5 * (logdet + np.log(precision) + float(rest @ inverse @ rest)))
        slope = inverse @ whole[1:, 0]
        expected = centre + float(slope @ rest)
        left = 1.0 - float(ones @ slope)
        variance = whole[0, 0] - float(whole[0, 1:] @ slope) + left**2 / precision
        tails.append(float(special.ndtr(-(mine - expected) / np.sqrt(variance))))
    steps = np.gradient(GRID)
    prior = 1.0 / (1.0 + (GRID / scale) ** 2)
    mass = np.exp(np.asarray(weights) - max(weights)) * prior * steps
    return float((mass * np.asarray(tails)).sum() / mass.sum())


def others_pass(claim: Claim) -> bool:
    """All controls but the two that the analysis replaces: spread, and "not clearly more than" a reference."""
    replaced = [
        control
        for control in claim.controls
        if control.name.startswith(SPREAD)
        or (control.name.startswith(BASELINE) and "not clearly more" in control.reason)
    ]
    fired = any(control.name.startswith(SPREAD) for control in claim.controls)
    return fired and all(
        control.outcome == "passed" for control in claim.controls if control not in replaced
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--only", default="", help="recipes whose name holds this text")
    parser.add_argument("--lab", type=Path, help="what bench/lab_grid.py tables wrote")
    parser.add_argument("--spread", action="store_true", help="of clean families, beside chance")
    parser.add_argument("--drawn", action="store_true", help="every base has its own references")
    chosen = parser.parse_args()
    heads = [f"analysis alone, prior {scale:g}" for scale in SCALES]
    heads += [f"and the other controls, prior {scale:g}" for scale in SCALES]
    if chosen.spread:
        spreads(chosen.lab)
        return
    if chosen.lab is not None:
        on_lab(chosen.lab, chosen.drawn, heads)
        return
    print(
        f"{chosen.replicates} replicates; *survives*, in brackets the upper end of a one-sided 95 % interval\n"
    )
    print(f"| twins | models | present rule | {' | '.join(heads)} |")
    print(f"|---|---|{'--:|' * (1 + len(heads))}", flush=True)
    for recipe in RECIPES:
        if chosen.only in recipe.name:
            print(_row(recipe, chosen.replicates), flush=True)


def spreads(runs: Path) -> None:
    """How far the drops of clean arms of other bases differ, less what the items they answered explain."""
    grid = read_grid(runs)
    for benchmark in grid.benchmarks:
        arms = [m for m in grid.models.values() if m.planted and m.role(benchmark) == CLEAN]
        names = [model.name for model in arms]
        settings = DetectSettings(
            baselines=tuple(names[1:]), families=tuple((m.name, m.base) for m in arms)
        )
        tables = narrowed(answers_of(runs, benchmark), set(names))
        values, covariance = drops(tables, settings, names[0])
        count = len(values)
        chance = (np.trace(covariance) - covariance.sum() / count) / (count - 1)
        seen = float(values.var(ddof=1))
        print(
            f"{benchmark}: {count} families, SD of drops {seen**0.5:.3f}, by chance {chance**0.5:.3f}, "
            f"beyond it {max(0.0, seen - chance) ** 0.5:.3f}; from {values.min():.3f} to {values.max():.3f}"
        )


def on_lab(runs: Path, drawn: bool, heads: list[str]) -> None:
    """How many of the lab's models each rule confirms, by benchmark and kind of arm, and which clean ones."""
    grid = read_grid(runs)
    looks = argparse.Namespace(detector="twin-drop", permutations=999, rates=None, drawn=drawn)
    counts: dict[tuple[str, str], Counter[str]] = {}
    accused = []
    for job in jobs(grid, looks):
        model, tables, settings = looked(job)
        claim, _ = claimed(job, tables, settings)
        values, covariance = drops(tables, settings, job.name)
        kind = kind_of(model, job.benchmark)
        found = {scale: predictive_p(values, covariance, scale) for scale in SCALES}
        one = Counter({"models": 1, "rule": int(claim.status == "survives")})
        for scale, p in found.items():
            one[f"alone {scale}"] += p <= LEVEL
            one[f"beside {scale}"] += p <= LEVEL and others_pass(claim)
        counts.setdefault((job.benchmark, kind), Counter()).update(one)
        if kind == KINDS[0] and sum(one.values()) > 1:
            shown = ", ".join(f"{scale:g}: {p:.3f}" for scale, p in found.items())
            accused.append(f"{job.name} ({claim.status}; p by prior {shown})")
    print(f"| benchmark | models | of | present rule | {' | '.join(heads)} |")
    print(f"|---|---|{'--:|' * (2 + len(heads))}")
    for (benchmark, kind), each in counts.items():
        cells = " | ".join(str(each[key]) for key in ("models", *KEYS))
        print(f"| {benchmark} | {kind} | {cells} |")
    print(f"\nclean models that a rule confirms: {'; '.join(accused) or 'none'}")


def _row(recipe: Recipe, replicates: int) -> str:
    counts: Counter[str] = Counter()
    for seed in range(replicates):
        recording = recipe.make(seed)
        (claim,) = counted_claims(recording, examined(recording))
        counts["rule"] += claim.status == "survives"
        ((_, settings),) = recording.looks
        values, covariance = drops(recording.tables, settings)
        for scale in SCALES:
            outside = predictive_p(values, covariance, scale) <= LEVEL
            counts[f"alone {scale}"] += outside
            counts[f"beside {scale}"] += outside and others_pass(claim)
    cells = [
        f"{counts[key] / replicates:.3f} (≤ {binomial_interval(counts[key], replicates, 0.9).high:.3f})"
        for key in KEYS
    ]
    return f"| {recipe.name} | {'contaminated' if recipe.contaminated else 'clean'} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
