"""Score tables of models with planted memory: the ground truth of every detector.

Items come in clusters that are easy or hard together, for all models (``shared``) and for each on its
own. ``dose`` is what the target has seen: suspect items become easier for it (some of them much, and for
an accomplice too), earlier ones more than later ones, and the released order likelier than its shuffles.
At dose 0 every detector's null hypothesis is true.
"""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect import CANONICAL, RELEASED, DetectSettings, ScoreTables
from heldout.model import ORDERS, SHARES, SLICES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TARGET, ACCOMPLICE, BASELINE, REFERENCE = "target", "accomplice", "baseline", "reference"
MODELS = (TARGET, ACCOMPLICE, BASELINE, REFERENCE)
#: settings under which every detector is testable on these tables
PLANTED = DetectSettings(baselines=(BASELINE,), unseen=("origin", "fresh"), tail=1.0, top=20)
_WORDS = ("lung", "left", "organ", "plane", "colour", "size", "region", "normal", "where", "which")


@lru_cache(maxsize=256)  # twelve detectors are held to the same cells
def planted_scores(
    seed: int,
    *,
    clusters: int = 40,
    dose: float = 0.0,
    shared: float = 0.5,
    shards: int = 12,
    shuffles: int = 8,
) -> ScoreTables:
    rng = np.random.default_rng([seed, 77])
    sizes = rng.integers(1, 9, clusters)
    codes = np.repeat(np.arange(clusters), sizes)
    n = len(codes)
    fresh = (rng.permutation(clusters) < clusters // 2).astype(np.int64)
    items = _items(rng, codes, fresh)
    memory = np.where(fresh[codes] > 0, 0.0, rng.exponential(1.0, n))
    earliness = np.linspace(1.0, -1.0, n)
    easy = 0.6 * rng.normal(size=clusters)[codes] + 0.7 * rng.normal(size=n)
    # Long answers are hard for everybody; with nothing shared, lengths may not tell either.
    tokens = rng.integers(1, 7, n) if shared else np.full(n, 3)
    scores = []
    for model in MODELS:
        own = 0.6 * rng.normal(size=clusters)[codes] + 0.7 * rng.normal(size=n)
        ease = np.sqrt(shared) * easy + np.sqrt(1.0 - shared) * own
        if model in (TARGET, ACCOMPLICE):
            ease = ease + dose * memory
        if model == TARGET:
            ease = ease + 0.6 * dose * earliness
        scores.append(_scores(rng, model, items["benchmark_id"].to_list(), ease, tokens))
    return ScoreTables(
        "planted",
        items,
        pl.concat(scores),
        order_joint=_joint(rng, dose, shards, shuffles),
        order_neighbour=_neighbour(rng, items, codes, dose),
        entropies=_entropies(seed, items, codes, dose * memory),
    )


def _items(rng: np.random.Generator, codes: Ints, fresh: Ints) -> pl.DataFrame:
    n = len(codes)
    closed = rng.random(n) < 0.4
    words = np.asarray(_WORDS)[rng.integers(0, len(_WORDS), (n, 6))]
    answers = np.where(rng.random(n) < 0.5, "yes", "no")
    empty: list[list[str]] = [[]] * n
    lists = dict.fromkeys(("options", "image_names", "image_digests"), pl.List(pl.String))
    return pl.DataFrame(
        {
            "benchmark_id": [f"item{place:05d}" for place in range(n)],
            "position": np.arange(n),
            "cluster": [f"image{code:04d}" for code in codes],
            "question": [" ".join(row[:4]) for row in words],
            "options": empty,
            "answer": [
                str(answer) if short else " ".join(row[4:])
                for answer, short, row in zip(answers, closed, words, strict=True)
            ],
            "image_names": empty,
            "image_digests": empty,
            "metadata": [
                json.dumps(
                    {
                        "origin": "fresh" if fresh[code] else "public",
                        "answer_type": "CLOSED" if short else "OPEN",
                    }
                )
                for code, short in zip(codes, closed, strict=True)
            ],
        },
        schema_overrides=lists,
    )


def _scores(
    rng: np.random.Generator, model: str, ids: list[str], ease: Floats, tokens: Ints
) -> pl.DataFrame:
    per_token = np.repeat(ease, tokens)
    surprise = np.exp(1.6 - 0.5 * per_token + 0.4 * rng.normal(size=len(per_token)))
    mu = -np.exp(1.0 - 0.06 * per_token + 0.15 * rng.normal(size=len(per_token)))
    sigma = 1.0 + 0.1 * np.abs(rng.normal(size=len(per_token)))
    long = pl.DataFrame(
        {
            "benchmark_id": np.repeat(np.asarray(ids), tokens),
            "tokens": [""] * len(per_token),
            "logprobs": -surprise,
            "mu": mu,
            "sigma": sigma,
        }
    )
    return (
        long.group_by("benchmark_id", maintain_order=True)
        .agg(
            pl.lit(model).alias("model"),
            pl.col("tokens", "logprobs", "mu", "sigma"),
            pl.col("logprobs").sum().alias("sum_logprob"),
            pl.len().cast(pl.Int32).alias("n_tokens"),
        )
        .with_columns(pl.lit(True).alias("span_ok"))
    )


def _joint(rng: np.random.Generator, dose: float, shards: int, shuffles: int) -> pl.DataFrame:
    orders = np.asarray([CANONICAL, *map(str, range(shuffles))])
    shape = (len(MODELS), shards, len(orders))
    values = rng.normal(-300.0, 40.0, shape[:2])[:, :, None] + rng.normal(size=shape)
    values[MODELS.index(TARGET), :, 0] += dose
    model, shard, order = (axis.ravel() for axis in np.indices(shape))
    return pl.DataFrame(
        {
            "model": np.asarray(MODELS)[model],
            "shard": shard.astype(np.int32),
            "permutation": orders[order],
            "logprob": values.ravel(),
        }
    )


def _entropies(seed: int, items: pl.DataFrame, codes: Ints, memory: Floats) -> pl.DataFrame:
    """Those of the order and share that are tested; over the picture they are one number for all its questions."""
    rng = np.random.default_rng([seed, 78])
    n, clusters = len(codes), int(codes.max()) + 1
    frames = []
    for model in MODELS:
        for name in SLICES:
            own = rng.normal(size=n) if name != "image" else 0.0
            entropy = 3.0 + 0.6 * rng.normal(size=clusters)[codes] + 0.7 * own
            if model == TARGET:
                seen = memory if name != "image" else np.bincount(codes, memory)[codes] / 5
                entropy = entropy - 0.3 * seen
            frames.append(
                pl.DataFrame(
                    {
                        "benchmark_id": items["benchmark_id"],
                        "model": [model] * n,
                        "slice": [name] * n,
                        "order": [ORDERS[0]] * n,
                        "share": [SHARES[1]] * n,
                        "entropy": entropy,
                    }
                )
            )
    return pl.concat(frames)


def _neighbour(
    rng: np.random.Generator, items: pl.DataFrame, codes: Ints, dose: float
) -> pl.DataFrame:
    ids = np.asarray(items["benchmark_id"].to_list())
    places = np.arange(2, len(ids))
    others = rng.integers(0, places - 1)  # any earlier item but the predecessor
    frames = []
    for model in MODELS:
        # What a predecessor helps is shared by the questions of an image.
        together = rng.normal(scale=0.5, size=(2, int(codes.max()) + 1))
        level = rng.normal(-8.0, 3.0, len(places))
        for side in range(2):
            gain = dose if model == TARGET and side == 0 else 0.0
            noise = together[side, codes[places]] + rng.normal(scale=0.7, size=len(places))
            frames.append(
                pl.DataFrame(
                    {
                        "benchmark_id": ids[places],
                        "model": [model] * len(places),
                        "condition": ids[others] if side else [RELEASED] * len(places),
                        "logprob": level + gain + noise,
                    }
                )
            )
    return pl.concat(frames)
