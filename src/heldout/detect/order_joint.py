"""order-joint: the test of Oren et al. (2024): shards in released order against shuffled ones.

Each item is conditioned on the items before it, so a model that saw the release in order finds it
likelier than its shuffles. Two p-values: the sharded t of the paper, with the unbiased variance and
``sf`` instead of ``1 - cdf``; and an exact one, which asks how often a random shuffle in place of the released
order of every shard would have been as extreme. The exact one is the finding's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.detect.detector import (
    GAIN,
    OREN,
    Detector,
    Difference,
    Need,
    model_rows,
    paired_difference,
    text_tokens,
)
from heldout.detect.finding import Outcome, around, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError
from heldout.model import CANONICAL as CANONICAL
from heldout.stats import Interval, staged

NAME = "order-joint"
MANY = 30  # shards from which on the number of arrangements limits nothing
# with fewer, the spread between shards is uncertain, and that of the shuffles is used
ENOUGH_SHARDS = 5
BLIND_TO = ["memory without order (items seen shuffled or alone)", "memory beyond one shard"]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.models:
        shards = [] if tables.order_joint is None else joint_shards(tables.order_joint, model)
        if not shards:
            reason = "no table order_joint for this model: score canonical and shuffled shards"
            yield not_testable(NAME, tables.benchmark, model, reason)
            continue
        gains = shard_gains(shards)
        test = staged(
            float(sum(shard[0] - shard.mean() for shard in shards)),
            lambda count, rng, shards=shards: _dealt(shards, count, rng),  # type: ignore[misc]
            permutations=settings.permutations,
            seed=settings.seed,
            arrangements=float(np.prod([float(len(shard)) for shard in shards[:MANY]])),
        )
        scale = np.mean([len(shard) / (len(shard) - 1) for shard in shards]) / len(shards)
        mean, error, interval = _gain(gains, test.spread * float(scale))
        t, p_t = sharded_t(gains)
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="shards",
            statistic=("sharded t", t),
            effect=("gain of the released order, nats per shard", mean, interval),
            error=error,
            p=test.p,
            n=len(shards),
            clusters=len(shards),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="order_joint",
            details={
                "p_t_one_sided": p_t,
                "p_t_two_sided": 2 * float(special.stdtr(len(gains) - 1, -abs(t))) if t else 1.0,
                "p_greater": test.p_greater,
                "p_tied": test.p_tied,
                "permutations": test.evaluated,
                "least_p": test.least,
                "shuffles_per_shard": float(np.mean([len(shard) - 1 for shard in shards])),
            },
        )


def joint_shards(recorded: pl.DataFrame, model: str) -> list[NDArray[np.float64]]:
    """Per shard its log-probabilities, the released order's first; shards without shuffles are left."""
    mine = recorded.filter(pl.col("model") == model).sort("shard", "permutation")
    if mine.select("shard", "permutation").n_unique() < len(mine):
        raise InputError(
            f"order_joint has a shard and permutation of {model} twice: score it again"
        )
    if not mine["logprob"].is_finite().all():
        raise InputError(f"order_joint holds NaN or infinite values for {model}: score it again")
    shards = []
    for _, shard in mine.group_by("shard", maintain_order=True):
        released = shard.filter(pl.col("permutation") == CANONICAL)["logprob"]
        shuffled = shard.filter(pl.col("permutation") != CANONICAL)["logprob"]
        if len(released) == 1 and len(shuffled) > 0:
            shards.append(np.concatenate([released.to_numpy(), shuffled.to_numpy()]))
    return shards


def shard_gains(shards: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.asarray([shard[0] - shard[1:].mean() for shard in shards], dtype=np.float64)


def sharded_t(gains: NDArray[np.float64]) -> tuple[float, float]:
    """t and its upper tail. One shard has no variance: t is 0 then, and p 1."""
    count = len(gains)
    spread = float(gains.std(ddof=1)) if count > 1 else 0.0
    if spread == 0.0:
        return 0.0, 1.0
    t = float(gains.mean() / (spread / np.sqrt(count)))
    return t, float(special.stdtr(count - 1, -t))  # sf(t) without 1 - cdf


def _dealt(
    shards: list[NDArray[np.float64]], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sums over shards when any of a shard's orders might have been the released one."""
    sums = np.zeros(count)
    for shard in shards:
        sums += (shard - shard.mean())[rng.integers(0, len(shard), count)]
    return sums


def _gain(gains: NDArray[np.float64], spread: float) -> tuple[float, float, Interval]:
    mean, count = float(gains.mean()), len(gains)
    if count < ENOUGH_SHARDS:
        return mean, spread, around(mean, spread, "spread of the shuffles")
    error = float(gains.std(ddof=1) / np.sqrt(count))
    reach = float(special.stdtrit(count - 1, 0.975)) * error
    return mean, error, Interval(mean - reach, mean + reach, 0.95, "t over shards")


def against(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """Both models' gains, shard by shard."""
    return _difference(tables, model, baseline, settings, shard_gains)


def skill(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """How much likelier the shuffled shards are to it: who reads better also makes more of neighbours."""
    what = "shuffled texts likelier than to the baseline"
    return _difference(tables, model, baseline, settings, _shuffled, what)


def _shuffled(shards: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.asarray([shard[1:].mean() for shard in shards], dtype=np.float64)


def _difference(
    tables: ScoreTables,
    model: str,
    baseline: str,
    settings: DetectSettings,
    of: Callable[[list[NDArray[np.float64]]], NDArray[np.float64]],
    what: str = GAIN,
) -> Difference | str:
    """By shard the model's value less the baseline's."""
    recorded = tables.order_joint
    if recorded is None:
        return "no table order_joint"
    mine, theirs = (
        of(shards) if (shards := joint_shards(recorded, name)) else np.empty(0)
        for name in (model, baseline)
    )
    if len(mine) != len(theirs) or len(mine) < 5:
        return "the baseline was not scored on the same shards (at least 5 are needed)"
    names = [str(index) for index in range(len(mine))]
    return paired_difference(
        mine - theirs, names, model, baseline, settings, "nats per shard", what
    )


def cost(tables: ScoreTables, model: str, recorded: Mapping[str, Any] | None) -> int | None:
    """Without a count an item is taken to be as long as its question without the picture."""
    rows = model_rows(tables.order_joint, model)
    if rows is None:
        return None
    if recorded is not None:
        shards = recorded["order_joint"]  # of one reading; an order changes no length
        return sum(int(shards[str(shard)]) for shard in rows["shard"])
    return round(text_tokens(tables, model) * len(rows) / rows["shard"].n_unique())


DETECTOR = Detector(
    NAME,
    "order",
    "are the items likelier in the released order than shuffled?",
    find,
    table="order_joint",
    requires=frozenset({Need.DOCUMENTS, Need.BUDGET}),
    # Runs of one topic help any model that uses its context, and shuffles break the runs.
    controls=("external baseline", "spread of clean models", "skill of the references"),
    against=against,
    skill=skill,
    cost=cost,
    citations=(OREN,),
)
