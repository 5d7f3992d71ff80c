"""loss: the mean log-probability of the answer's tokens (Yeom et al. 2018)."""

from __future__ import annotations

import zlib

import numpy as np

from heldout.detect.citations import CARLINI, LI, SHI, YEOM, ZHANG
from heldout.detect.detector import Need
from heldout.detect.membership.set_level import hardest_mean, item_detector
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, Scored, ScoreTables


def loss(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
    return scored.means


LOSS = item_detector("loss", "mean log-probability of the answer", loss, citations=(YEOM,))


# min-k: the mean log-probability of the hardest tokens (Shi et al. 2024).


def min_k(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
    if not scored.has("logprobs"):
        return "per-token log-probabilities were not recorded"
    return hardest_mean(scored.flat("logprobs"), scored.counts, settings.share)


MIN_K = item_detector(
    "min-k", "mean log-probability of the answer's hardest tokens", min_k, citations=(SHI,)
)


# min-k++: the hardest tokens in units of the whole vocabulary's spread (Zhang et al. 2025).


# A model that is certain has no spread; without a floor one such token would outweigh a benchmark.
FLOOR = 1e-6


def min_k_plus_plus(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
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


def max_renyi(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
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


def perplexity_ratio(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
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


def zlib_ratio(tables: ScoreTables, scored: Scored, settings: DetectSettings) -> Floats | str:
    lengths = [
        len(zlib.compress((answer or "").encode("utf-8", "replace")))
        for answer in scored.frame["answer"]
    ]
    return np.asarray(scored.totals / np.asarray(lengths), dtype=np.float64)


ZLIB = item_detector(
    "zlib", "log-probability per compressed byte of the answer", zlib_ratio, citations=(CARLINI,)
)
