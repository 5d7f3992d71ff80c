"""Two detectors: is the first half of a release likelier, and how likely is an answer's first token?"""

from collections.abc import Iterator

import numpy as np

from heldout.detect import (
    Detector,
    DetectSettings,
    Difference,
    Floats,
    ModelScores,
    Outcome,
    ScoreTables,
    arxiv,
    item_detector,
    model_finding,
    not_testable,
)
from heldout.stats import cluster_contrast, group_test
from heldout.verdict import Control, ControlInput

NAME = "first-half"


def compare_halves(values: Floats, scored: ModelScores, settings: DetectSettings) -> tuple | None:
    """Mean of the first half of the images less the second, and a test that keeps images whole."""
    images = list(dict.fromkeys(scored.clusters))
    first = set(images[: len(images) // 2])
    early = np.asarray([image in first for image in scored.clusters])
    contrast = cluster_contrast(values, early, scored.clusters, seed=settings.seed)
    tested = group_test(
        values,
        early,
        scored.clusters,
        permutations=settings.permutations,
        seed=settings.seed,
    )
    return None if contrast is None or tested is None else (contrast, tested.test.p)


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.models:
        scored = tables.scored(model)
        result = compare_halves(scored.means, scored, settings)
        if result is None:
            yield not_testable(NAME, tables.benchmark, model, "too few images in a half")
            continue
        contrast, p = result
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="questions",
            statistic=("difference between the halves", contrast.value),
            effect=("log p of the first half less the second", contrast.value, contrast.interval),
            error=contrast.error,
            p=p,
            n=len(scored),
            clusters=len(set(scored.clusters)),
            blind_to=["memory of the whole release"],
            seed=settings.seed,
            table="scores",
            details={},
        )


def against(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """The same test of the model's scores less the baseline's, item by item."""
    mine, theirs = tables.common([model, baseline])
    result = compare_halves(mine.means - theirs.means, mine, settings)
    if result is None:
        return "too few images in common"
    contrast, p = result
    what = "log p of the first half less the second, model less baseline"
    return Difference(model, baseline, contrast.value, contrast.interval, p, what)


def answers_of_one_length(about: ControlInput) -> list[Control]:
    """Longer answers have lower means: fails if answer length differs between the halves."""
    scored = about.tables.scored(about.model)
    result = compare_halves(scored.counts, scored, about.settings)
    if result is None or result[1] <= 0.05:
        return [Control(name="answer length", outcome="failed", reason="lengths differ by half")]
    return [Control(name="answer length", outcome="passed", reason=f"p = {result[1]:.2g}")]


FIRST_HALF = Detector(
    NAME,
    "first-half",
    "is the first half of the release likelier than the second?",
    find,
    kind="order",
    controls=("external baseline", answers_of_one_length),
    against=against,
    citations=(arxiv("halves2026", "Two Halves", "Doe, Jane", 2026, "2601.00001"),),
)


def first_token(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    if not scored.has("logprobs"):
        return "per-token log-probabilities were not recorded"
    starts = np.cumsum(scored.counts.astype(int)) - scored.counts.astype(int)
    return scored.flat("logprobs")[starts]


FIRST_TOKEN = item_detector(
    "first-token", "log-probability of the answer's first token", first_token
)
