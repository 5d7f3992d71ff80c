"""From item scores to a statement about the set: suspects against items that no model can have seen.

An item score alone says how easy an item is. Only a comparison makes it evidence, and the only one
that needs no assumption about the model is with items of the same kind that it cannot have seen
(written after its training, or kept private). Without such items there is no p-value here, and the
detector says what would make it testable.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect.blind import blind_area
from heldout.detect.detector import (
    CARLINI,
    LI,
    SHI,
    YEOM,
    ZHANG,
    Citation,
    Detector,
    Difference,
    ItemScores,
    Need,
    paired_difference,
)
from heldout.detect.finding import Outcome, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables, metadata_column, strata
from heldout.stats import (
    Contrast,
    area,
    cluster_contrast,
    group_test,
    stratum_overlap,
    within_strata,
)

Mask = NDArray[np.bool_]
TestedItems = Callable[[ModelScores, DetectSettings], Mask]
NEEDS = (
    "an item score has no reference of its own. Testable with items that no model can have seen: name "
    "them with the setting unseen. Without them, order tests and overlap inflation are what is left"
)
LEAST_CLUSTERS = 5
LEAST_OVERLAP = 0.25  # of a comparison's precision that must be left within strata
DRAWS = 1_999  # of the interval: its ends are read to two digits
BLIND_TO = [
    "single items: an item score near chance is expected, the set is what is tested",
    "differences between the two sets of items that words and metadata show (see blind)",
]


def item_detector(
    name: str,
    summary: str,
    score: ItemScores,
    *,
    requires: Collection[Need] = (),
    citations: tuple[Citation, ...] = (),
    family: str = "membership",
    tested: TestedItems | None = None,
    details: Callable[[ScoreTables, ModelScores, DetectSettings], dict[str, Any]] | None = None,
) -> Detector:
    """A detector made of a score per item: suspect items against items that no model can have seen.

    Args:
        name: What the setting ``detectors`` calls it.
        summary: What it asks, in one line.
        score: A score for each item, higher = more likely seen; or a sentence why there is none.
        requires: What it needs beside scores and unseen items.
        citations: What to cite.
        family: Its claim; by default that of all item scores.
        tested: Items that the test may use, where a score was learnt on the others; default: all.
        details: More to be kept with a finding.
    """

    def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
        for model in tables.models:
            yield test.outcome(tables, tables.scored(model), settings)

    score = _checked(score)
    test = _SetTest(name, score, tested, details)
    return Detector(
        name,
        family,
        summary,
        find,
        requires=frozenset({Need.UNSEEN, *requires}),
        kind="membership",
        controls=(
            "external baseline",
            "spread of clean models",
            "skill of the references",
            "blind",
        ),
        against=test.against,
        skill=_skill,
        # What was learnt on some items is no score to rank all of them by.
        item_scores=score if tested is None else None,
        citations=citations,
    )


def _checked(score: ItemScores) -> ItemScores:
    """The same scores, refused where they are not a finite number for each item."""

    def checked(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
        values = score(tables, scored, settings)
        if isinstance(values, str):
            return values
        if np.shape(values) != (len(scored),):
            raise ValueError(f"scores of shape {np.shape(values)} for {len(scored):,} items")
        if strange := int((~np.isfinite(values)).sum()):
            raise ValueError(f"{strange:,} scores that are not finite numbers")
        return values

    return checked


@dataclass(frozen=True)
class _SetTest:
    name: str
    score: ItemScores
    tested: TestedItems | None = None
    details: Callable[[ScoreTables, ModelScores, DetectSettings], dict[str, Any]] | None = None

    def outcome(
        self, tables: ScoreTables, scored: ModelScores, settings: DetectSettings
    ) -> Outcome:
        values = self.score(tables, scored, settings)
        if isinstance(values, str):
            return not_testable(self.name, tables.benchmark, scored.model, values)
        if settings.unseen is None:
            return not_testable(self.name, tables.benchmark, scored.model, NEEDS)
        whole = scored
        if self.tested is not None:
            kept = self.tested(scored, settings)
            scored, values = _only(scored, kept), values[kept]
        suspects = ~unseen_items(scored, settings)
        labels = strata(scored.frame, settings.strata)
        overlap = stratum_overlap(suspects, labels)
        contrast = set_contrast(values, suspects, scored.clusters, labels, settings.seed)
        tested = group_test(
            values,
            suspects,
            scored.clusters,
            labels,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if contrast is None or tested is None:
            reason = "fewer than 5 clusters of suspect, or of unseen items: too few to compare"
            return not_testable(self.name, tables.benchmark, scored.model, reason)
        if overlap < LEAST_OVERLAP:
            reason = hardly_shared(overlap, settings)
            return not_testable(self.name, tables.benchmark, scored.model, reason)
        more = self.details(tables, whole, settings) if self.details is not None else {}
        return model_finding(
            self.name,
            tables.benchmark,
            scored.model,
            unit="questions",
            statistic=(f"area under the curve over {tested.unit}", tested.auc),
            effect=(
                "mean score of suspect less unseen items, within strata",
                contrast.value,
                contrast.interval,
            ),
            error=contrast.error,
            p=tested.test.p,
            n=len(scored),
            clusters=len(set(scored.clusters)),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            direction=None if np.sign(contrast.value) == np.sign(tested.auc - 0.5) else "none",
            details={
                "suspect_items": contrast.n[0],
                "unseen_items": contrast.n[1],
                "clusters_by_side": list(contrast.clusters),
                "item_auc": area(values, suspects),
                # comparable between models, whose scores have scales of their own
                "in_deviations": contrast.value / float(values.std()) if values.std() > 0 else 0.0,
                "stratum_overlap": overlap,
                "blind_auc": _blind(tables, scored, suspects),
                "p_tied": tested.test.p_tied,
                "permutations": tested.test.evaluated,
                "least_p": tested.test.least,
                "strata": list(settings.strata),
                **more,
            },
        )

    def against(
        self, tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
    ) -> Difference | str:
        """Both models' scores in units of their own spread: a gain is not memory."""
        if settings.unseen is None:
            return "no items are known to be unseen"
        cells = tables.common([model, baseline])
        values = [self.score(tables, cell, settings) for cell in cells]
        known = [_standard(value) for value in values if not isinstance(value, str)]
        if len(known) < 2:
            return next(value for value in values if isinstance(value, str))
        gap = known[0] - known[1]
        if self.tested is not None:
            kept = self.tested(cells[0], settings)
            cells, gap = [_only(cell, kept) for cell in cells], gap[kept]
        suspects = ~unseen_items(cells[0], settings)
        labels = strata(cells[0].frame, settings.strata)
        contrast = set_contrast(gap, suspects, cells[0].clusters, labels, settings.seed)
        tested = group_test(
            gap,
            suspects,
            cells[0].clusters,
            labels,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if contrast is None or tested is None:
            return "too few clusters in common"
        if (overlap := stratum_overlap(suspects, labels)) < LEAST_OVERLAP:
            return hardly_shared(overlap, settings)
        what = "suspect less unseen items, model less baseline, in standard deviations"
        return Difference(model, baseline, contrast.value, contrast.interval, tested.test.p, what)


def _skill(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """How much likelier the answers to unseen items are to it: harder pictures cost nothing who cannot see
    them."""
    if settings.unseen is None:
        return "no items are known to be unseen"
    mine, theirs = tables.common([model, baseline])
    unseen = unseen_items(mine, settings)
    clusters = [name for name, kept in zip(mine.clusters, unseen, strict=True) if kept]
    if len(set(clusters)) < LEAST_CLUSTERS:
        return "too few clusters in common"
    gap = (mine.totals - theirs.totals)[unseen]
    what = "answers to unseen items likelier than to the baseline"
    return paired_difference(gap, clusters, model, baseline, settings, "nats per item", what)


def _only(scored: ModelScores, kept: Mask) -> ModelScores:
    return ModelScores(scored.model, scored.frame.filter(pl.Series(kept)))


def set_contrast(
    values: Floats,
    suspects: Mask,
    clusters: Sequence[str],
    labels: Sequence[str] | None,
    seed: int,
) -> Contrast | None:
    """The difference within strata; wider the less of the comparison is left within them."""
    left = within_strata(values, suspects, labels)
    contrast = cluster_contrast(left, suspects, clusters, draws=DRAWS, seed=seed)
    if contrast is None:
        return None
    wider = max(stratum_overlap(suspects, labels), LEAST_OVERLAP) ** -0.5
    ends = (contrast.value + wider * (end - contrast.value) for end in contrast.interval[:2])
    low, high = ends
    interval = contrast.interval._replace(low=low, high=high)
    return contrast._replace(error=contrast.error * wider, interval=interval)


def hardly_shared(overlap: float, settings: DetectSettings) -> str:
    return (
        f"suspect and unseen items hardly share strata of {' and '.join(settings.strata)}: within them "
        f"{overlap:.0%} of the comparison is left, and {LEAST_OVERLAP:.0%} are needed. Testable with unseen "
        "items of the same kinds, or with fewer fields under strata"
    )


def _standard(values: Floats) -> Floats:
    spread = float(values.std())
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0), dtype=np.float64)


def _blind(tables: ScoreTables, scored: ModelScores, suspects: Mask) -> float:
    """The blind baseline, which is the same for every model and score that covers the same items."""
    key = ("blind", tuple(scored.frame["benchmark_id"]), suspects.tobytes())
    if key not in tables.memo:
        tables.memo[key] = blind_area(scored.frame, suspects)
    return float(tables.memo[key])


def unseen_items(scored: ModelScores, settings: DetectSettings) -> Mask:
    """Which items no model can have seen, by the metadata field that the user named."""
    assert settings.unseen is not None
    field, wanted = settings.unseen
    values = metadata_column(scored.frame, field)
    return np.fromiter((value == wanted for value in values), bool, len(values))


def hardest_mean(values: Floats, counts: Floats, share: float) -> Floats:
    """Mean of the lowest ``share`` of each item's tokens, of at least one: answers have few.

    ``values`` hold all items' tokens one after the other, ``counts`` how many each item has.
    """
    sizes = counts.astype(np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    ordered = values[np.lexsort((values, owner))]
    place = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.maximum(1, (sizes * share).astype(np.int64))
    chosen = place < kept[owner]
    sums = np.bincount(owner[chosen], weights=ordered[chosen], minlength=len(sizes))
    return np.asarray(sums / kept, dtype=np.float64)


# loss: the mean log-probability of the answer's tokens (Yeom et al. 2018).


def loss(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    return scored.means


LOSS = item_detector("loss", "mean log-probability of the answer", loss, citations=(YEOM,))


# min-k: the mean log-probability of the hardest tokens (Shi et al. 2024).


def min_k(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    if not scored.has("logprobs"):
        return "per-token log-probabilities were not recorded"
    return hardest_mean(scored.flat("logprobs"), scored.counts, settings.share)


MIN_K = item_detector(
    "min-k", "mean log-probability of the answer's hardest tokens", min_k, citations=(SHI,)
)


# min-k++: the hardest tokens in units of the whole vocabulary's spread (Zhang et al. 2025).


# A model that is certain has no spread; without a floor one such token would outweigh a benchmark.
FLOOR = 1e-6


def min_k_plus_plus(
    tables: ScoreTables, scored: ModelScores, settings: DetectSettings
) -> Floats | str:
    if not all(scored.has(column) for column in ("logprobs", "mu", "sigma")):
        return "full-vocabulary mu and sigma were not recorded: this backend cannot give min-k++"
    centred = scored.flat("logprobs") - scored.flat("mu")
    standard = centred / np.maximum(scored.flat("sigma"), FLOOR)
    return hardest_mean(standard, scored.counts, settings.share)


MIN_K_PLUS_PLUS = item_detector(
    "min-k++",
    "hardest tokens, standardised by the whole vocabulary",
    min_k_plus_plus,
    requires={Need.VOCABULARY},
    citations=(ZHANG,),
)


# max-renyi-k: how uncertain the model is where it is most uncertain (Li et al. 2024).
#
# The recorded mu is the mean of log p under the model itself, so -mu is the Shannon entropy, the Rényi
# entropy of order 1, exactly. Other orders need the whole distribution, which no table keeps.


def max_renyi(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    if not scored.has("mu"):
        return "full-vocabulary mu was not recorded: the entropy at a position is not known"
    # The largest entropies are the lowest mu; less uncertain = more likely seen.
    return hardest_mean(scored.flat("mu"), scored.counts, settings.share)


MAX_RENYI = item_detector(
    "max-renyi-k",
    "negative entropy at the most uncertain tokens",
    max_renyi,
    requires={Need.VOCABULARY},
    citations=(LI,),
)


# perplexity-ratio: how much likelier the answer is than to a reference model (Carlini et al. 2021).


def perplexity_ratio(
    tables: ScoreTables, scored: ModelScores, settings: DetectSettings
) -> Floats | str:
    name = settings.reference_model
    if name is None:
        return "no reference model is named (the settings reference and baselines)"
    if name == scored.model:
        return "this is the reference model itself"
    if name not in tables.models:
        return f"the scores of the reference model {name} did not pass their self-checks"
    unlike = tables.comparable(scored.model, name)
    if unlike is not None:
        return unlike
    reference = tables.scored(name)
    known = dict(zip(reference.frame["benchmark_id"], reference.means, strict=True))
    missing = [item for item in scored.frame["benchmark_id"] if item not in known]
    if missing:
        return f"{len(missing):,} items were not scored by the reference model {name}"
    theirs = np.asarray([known[item] for item in scored.frame["benchmark_id"]])
    return np.asarray(scored.means - theirs, dtype=np.float64)


PERPLEXITY_RATIO = item_detector(
    "perplexity-ratio",
    "log-probability above that of a reference model",
    perplexity_ratio,
    requires={Need.REFERENCE},
    citations=(CARLINI,),
)


# zlib: log-probability per compressed byte of the answer (Carlini et al. 2021).


def zlib_ratio(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    lengths = [
        len(zlib.compress((answer or "").encode("utf-8", "replace")))
        for answer in scored.frame["answer"]
    ]
    return np.asarray(scored.totals / np.asarray(lengths), dtype=np.float64)


ZLIB = item_detector(
    "zlib", "log-probability per compressed byte of the answer", zlib_ratio, citations=(CARLINI,)
)


MEMBERSHIP: tuple[Detector, ...] = (
    MIN_K,
    MIN_K_PLUS_PLUS,
    LOSS,
    ZLIB,
    MAX_RENYI,
    PERPLEXITY_RATIO,
)


# Δ: how far an item's score lies above the median of the other models in the cohort.


SMALLEST = 3  # models: with two, the median of the others is the other


def cohort_scores(
    tables: ScoreTables, settings: DetectSettings, models: Sequence[str] | None = None
) -> tuple[list[str], list[str], Floats, str] | str:
    """(item ids, clusters, models × items, which score), or the reason why there is no cohort.

    min-k++ where every model has it, as published; else the mean log-probability.
    """
    names = list(models if models is not None else tables.models)
    for other in names[1:]:
        unlike = tables.comparable(names[0], other)
        if unlike is not None:
            return unlike
    if not names:
        return "no model has scores"
    cohort = tables.common(names)
    if not len(cohort[0]):
        return "no item was scored by all models"
    for detector in (MIN_K_PLUS_PLUS, LOSS):
        scores = [detector.score(tables, scored, settings) for scored in cohort]
        numbers = [array for array in scores if not isinstance(array, str)]
        if len(numbers) == len(scores):
            ids: list[str] = cohort[0].frame["benchmark_id"].to_list()
            return ids, cohort[0].clusters, np.stack(numbers), detector.name
    return "no score is known of every model"


def cohort_delta(scores: Floats) -> Floats:
    """Row by row the score less the median of all other rows."""
    models = len(scores)
    out = np.empty_like(scores)
    for row in range(models):
        out[row] = scores[row] - np.median(np.delete(scores, row, axis=0), axis=0)
    return out
