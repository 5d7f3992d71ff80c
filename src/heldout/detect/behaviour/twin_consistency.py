"""twin-consistency: does the twin drop grow with the number of times a model has seen the benchmark?

Of models whose degree of contamination is known (epochs of training on it). The published requirement is
that the drop is monotone; here it is tested by Jonckheere and Terpstra's statistic within items, because
all models answered the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from heldout.detect.behaviour.compare import FEW, differences, measure
from heldout.detect.behaviour.twin_drop import TWIN, probe_for, twins_of
from heldout.detect.detector import PARK, Detector
from heldout.detect.finding import Outcome, around_correlation, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError
from heldout.stats import jonckheere_blocks

NAME = "twin-consistency"
BLIND_TO = [
    "whether any of the models is contaminated: only whether drops follow the degrees given"
]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    if not settings.degrees:
        return
    for model, _ in settings.degrees:
        if model not in tables.answering:
            raise InputError(
                f"degrees {model}: no answers of it in this run; it has "
                f"{', '.join(tables.answering) or 'none'}"
            )
    ordered = sorted(settings.degrees, key=lambda pair: (pair[1], pair[0]))
    label = " < ".join(model for model, _ in ordered)
    if len({degree for _, degree in ordered}) < 2:
        yield not_testable(NAME, tables.benchmark, label, "needs models of two degrees or more")
        return
    shared = set.intersection(*(set(twins_of(tables, model)) for model, _ in ordered))
    for twin in sorted(shared):
        yield _consistency(twin, tables, settings, ordered, label)


def _consistency(
    twin: str,
    tables: ScoreTables,
    settings: DetectSettings,
    ordered: list[tuple[str, float]],
    label: str,
) -> Outcome:
    alone = DetectSettings(seed=settings.seed, permutations=99)
    joined: pl.DataFrame | None = None
    own: dict[str, dict[str, float]] = {}
    for index, (model, degree) in enumerate(ordered):
        measured = measure(probe_for(twin), tables, alone, model)
        if isinstance(measured, str):
            return not_testable(NAME, tables.benchmark, label, f"{model}: {measured}")
        own[model] = {"degree": degree, "drop": measured.plain.value, "n": measured.plain.n}
        drops = measured.pairs.select("benchmark_id", "cluster").with_columns(
            pl.Series(f"d{index}", differences(measured.pairs))
        )
        joined = (
            drops
            if joined is None
            else joined.join(drops.drop("cluster"), on="benchmark_id", maintain_order="left")
        )
    assert joined is not None
    values = joined.select(f"d{index}" for index in range(len(ordered))).to_numpy()
    clusters = joined["cluster"].to_list()
    if len(set(clusters)) < FEW:
        return not_testable(NAME, tables.benchmark, label, "too few images that all have answered")
    test = jonckheere_blocks(
        values,
        [degree for _, degree in ordered],
        clusters,
        permutations=settings.permutations,
        seed=settings.seed,
    )
    if test is None:
        return not_testable(NAME, tables.benchmark, label, "all models answer every item alike")
    mean = np.asarray(values.mean(0))
    by_degree = [
        float(
            np.mean(
                [drop for drop, (_, other) in zip(mean, ordered, strict=True) if other == degree]
            )
        )
        for degree in sorted({degree for _, degree in ordered})
    ]
    return model_finding(
        NAME,
        tables.benchmark,
        label,
        unit="questions",
        statistic=("Jonckheere–Terpstra J", test.statistic),
        effect=(
            "concordance of drop and degree",
            test.concordance,
            around_correlation(test.concordance, test.error, "permutation standard error"),
        ),
        error=test.error,
        p=test.p,
        n=len(clusters),
        clusters=len(set(clusters)),
        blind_to=BLIND_TO,
        seed=settings.seed,
        table="answers",
        details={
            "p_tied": test.p_tied,
            "exact": test.exact,
            "twins": twin,
            "models": own,
            "monotone": all(a <= b for a, b in pairwise(by_degree)),
        },
    )


DETECTOR = Detector(
    NAME,
    "consistency",
    "does the drop grow with how often models saw the benchmark?",
    find,
    needs="answers",
    variants=("original", f"{TWIN}|{TWIN}-*"),
    of="models",
    claims=False,
    controls=("answers",),
    citations=(PARK,),
)
