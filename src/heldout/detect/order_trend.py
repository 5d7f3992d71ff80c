"""order-trend: do scores rise or fall along the released order, block by block, within strata?

A sum of independent log-likelihoods has no order, so this is not the test of Oren et al.; it is a rank
correlation with position. A benchmark sorted by difficulty shows a trend for every model that never
saw it, which is why the claim requires baselines and other orders.
"""

from __future__ import annotations

from collections.abc import Iterator

from heldout.detect.detector import Detector, Difference
from heldout.detect.finding import Outcome, around, around_correlation, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables, strata
from heldout.stats import FEWEST, aligned_ranks, trend_test

NAME = "order-trend"
BLIND_TO = [
    "memory that lifts all items alike",
    "a trend that the release's own structure makes: compare baselines and other orders",
]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.models:
        scored = tables.scored(model)
        labels = strata(scored.frame, settings.strata)
        trend = trend_test(
            scored.means,
            scored.clusters,
            labels,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if trend is None:
            reason = (
                f"fewer than {FEWEST} clusters, or runs of clusters with like scores, or scores that do "
                "not vary within their strata"
            )
            yield not_testable(NAME, tables.benchmark, model, reason)
            continue
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="clusters",
            statistic=("rank correlation with earliness", trend.rho),
            effect=(
                "rank correlation with earliness",
                trend.rho,
                around_correlation(trend.rho, trend.error, "permutation standard error"),
            ),
            error=trend.error,
            p=trend.test.p,
            n=len(scored),
            clusters=trend.clusters,
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            details={
                "largest_effect": 1.0,
                "reading": _reading(trend.test.p, trend.rho),
                "p_earlier_easier": trend.test.p_greater,
                "p_later_easier": trend.test.p_less,
                "p_tied": trend.test.p_tied,
                "permutations": trend.test.evaluated,
                "least_p": trend.test.least,
                "run": trend.run,
                "strata": list(settings.strata),
            },
        )


def _reading(p: float, rho: float) -> str:
    if p > 0.05:
        return "no trend along the order"
    side = "earlier" if rho > 0 else "later"
    return f"{side} items are likelier than the order's chance explains"


def against(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """The trend of the difference between both models' ranks."""
    mine, theirs = tables.common([model, baseline])
    labels = strata(mine.frame, settings.strata)
    gap = aligned_ranks(mine.means, labels) - aligned_ranks(theirs.means, labels)
    trend = trend_test(gap, mine.clusters, permutations=settings.permutations, seed=settings.seed)
    if trend is None:
        return "too few clusters in common"
    interval = around(trend.rho, trend.error, "permutation standard error")
    what = "rank correlation with earliness of the rank difference"
    return Difference(model, baseline, trend.rho, interval, trend.test.p, what)


DETECTOR = Detector(
    NAME,
    "order",
    "do scores rise or fall along the released order?",
    find,
    controls=("external baseline", "covariates", "structure", "conditional order test"),
    against=against,
)
