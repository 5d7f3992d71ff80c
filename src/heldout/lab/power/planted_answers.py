"""Answers of models with planted memory: the ground truth of detectors that read answers.

Images are easy or hard for all their questions, for all models and for each on its own; every model likes
the first option, and the release puts the right one there most often. ``dose`` is how often the target
has seen the benchmark: of the items it remembers it gives the released answer whatever it is asked, in the
released letter or word. At dose 0 every detector's null hypothesis is true, but for twin-drop without
references where the release is skewed: a twin moves the answer. Some pictures attract all models, or one of
them, to the released answer where they are wrong. Options have log-probabilities, of which the reply is the
largest. ``easier`` makes twins and confused choices easier for
everybody, without any memory. ``skewed`` is what the release does, ``together`` how much a form (a twin's
picture) suits all questions about an image or none. ``models``: those to be written down. ``fresh``: half of the
images came after the release, and nobody remembers them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect import DetectSettings, ScoreTables, no_scores
from heldout.store import empty_table

Floats = NDArray[np.float64]

TARGET, BASELINE, REFERENCE, BASE = "target", "baseline", "reference", "base"
MODELS = (TARGET, BASELINE, REFERENCE, BASE)
#: settings under which every detector of answers is testable on these tables
ASKED = DetectSettings(
    baselines=(BASELINE,),
    bases=(("", BASE),),
    degrees=((BASELINE, 0.0), (REFERENCE, 0.0), (TARGET, 1.0)),
)
OPTIONS = 4
FAVOURITE = 0.2  # how often a model takes the first option without looking
LEAST_CHANCE = 0.003  # no option is impossible
_RELEASED = (0.4, 0.3, 0.2, 0.1)  # how often the release puts the right option in each place
_LETTERS = np.asarray(list("ABCD"))


@dataclass(frozen=True)
class PlantedForm:
    """One model's answers to all items in one form: the place of the right option, and of the chosen one."""

    model: str
    variant: str
    place: NDArray[np.int64]
    chosen: NDArray[np.int64]
    outcome: NDArray[np.str_]
    logprobs: Floats


@dataclass(frozen=True)
class PlantedDraw:
    """``codes``: the image of each item; ``later``: items that came after the release."""

    codes: NDArray[np.int64]
    forms: tuple[PlantedForm, ...]
    later: NDArray[np.bool_]


def planted_draw(
    seed: int,
    *,
    clusters: int = 40,
    dose: float = 0.0,
    easier: float = 0.0,
    unparsed: float = 0.0,
    skewed: bool = True,
    together: float = 0.4,
    models: tuple[str, ...] = MODELS,
    fresh: bool = False,
) -> PlantedDraw:
    """The same as ``planted_answers``, as arrays."""
    rng = np.random.default_rng([seed, 78])
    slips = np.random.default_rng([seed, 79])  # which wrong option a wrong reply names
    doubts = np.random.default_rng([seed, 80])  # how likely the other options are
    codes = np.repeat(np.arange(clusters), rng.integers(1, 9, clusters))
    n = len(codes)
    later = (np.random.default_rng([seed, 81]).permutation(clusters) < clusters // 2)[codes]
    gold = rng.choice(OPTIONS, n, p=_RELEASED if skewed else None)
    twin_gold = (gold + rng.integers(1, OPTIONS, n)) % OPTIONS
    # Some twins look more like their originals than others.
    pull = slips.normal(size=clusters)[codes]
    shared = rng.normal(size=clusters)[codes] + 0.7 * rng.normal(size=n)
    forms: list[PlantedForm] = []
    for model in MODELS:
        known = rng.random(n) < (1.0 - np.exp(-0.3 * dose) if model == TARGET else 0.0)
        known &= ~(later & fresh)
        level = shared + 0.5 * rng.normal(size=clusters)[codes]

        def answer(
            variant: str,
            place: NDArray[np.int64],
            ease: float,
            memory: float,
            # What belongs to this model, not to the one after it.
            level: Floats = level,
            known: NDArray[np.bool_] = known,
            model: str = model,
            draws: Sequence[np.random.Generator] = (rng, slips, doubts),
        ) -> None:
            """``memory``: the chance that an item that is remembered is answered right by it."""
            rng, slips, doubts = draws
            own = level + ease + together * rng.normal(size=clusters)[codes]
            right = rng.random(n) < 1.0 / (1.0 + np.exp(-own))
            right = np.where(rng.random(n) < FAVOURITE, place == 0, right)
            right = np.where(known, rng.random(n) < memory, right)
            read = rng.random(n) >= unparsed
            outcome = np.where(read, np.where(right, "right", "wrong"), "unparsed")
            if model not in models:
                return
            wrong = (place + slips.integers(1, OPTIONS, n)) % OPTIONS
            wrong = np.where((slips.random(n) < FAVOURITE) & (place != 0), 0, wrong)
            drawn = pull + together * slips.normal(size=clusters)[codes]
            attracted = 1.0 / (1.0 + np.exp(1.0 - drawn))
            drawn_back = known | (slips.random(n) < attracted)
            wrong = np.where(drawn_back & (place != gold), gold, wrong)
            chosen = np.where(right, place, wrong)
            sees = (1 - FAVOURITE) / (1.0 + np.exp(-own)) + FAVOURITE * (place == 0)
            chances = _chances(
                place,
                np.where(known, memory, sees),
                # Elsewhere than on the twin the old answer is the right one, or its place means nothing.
                np.where(known, 1.0, attracted if variant == "twin" else 0.0),
                gold,
            )
            logprobs = choice_logprobs(chances, chosen, doubts)
            forms.append(PlantedForm(model, variant, place, chosen, outcome, logprobs))

        answer("original", gold, 0.0, 1.0)
        answer("twin", twin_gold, easier, 0.1)
        answer("confused-choices", gold, easier, 0.4)
        answer("no-image", gold, -1.0, 1.0)
        answer("slot", gold, -0.5, 1.0)
        answer("slot-paraphrase", gold, -0.5, 0.4)
        for turn in range(1, OPTIONS):
            answer(f"rotation-{turn}", (gold + turn) % OPTIONS, 0.0, 0.3)
        # With draws of their own: what is drawn for the forms above stays as it was measured.
        own = [np.random.default_rng([seed, 82, MODELS.index(model), place]) for place in range(3)]
        answer("ngram", gold, -1.5, 1.0, draws=own)
        answer("ngram-paraphrase", gold, -1.5, 0.3, draws=own)
    return PlantedDraw(codes, tuple(forms), later & fresh)


@lru_cache(maxsize=64)
def planted_answers(seed: int, **values: Any) -> ScoreTables:
    """``values`` are those of ``planted_draw``."""
    draw = planted_draw(seed, **values)
    letters = pl.concat_list([pl.lit(letter) for letter in _LETTERS.tolist()])
    answers = pl.concat([_frame(form) for form in draw.forms]).with_columns(
        letters.alias("options")
    )
    items = _items(draw.codes, draw.later)
    return ScoreTables("planted", items, no_scores(), answers=answers)


def scored_twins(tables: ScoreTables) -> ScoreTables:
    """The same items without options: both answers scored on original and twin, in place of the letters'
    probabilities."""
    assert tables.answers is not None
    letters = _LETTERS.tolist()
    sides = {}
    for variant in ("original", "twin"):
        shown = tables.answers.filter(pl.col("variant") == variant)
        names = ("benchmark_id", "model", "gold", "options", "choice_logprobs")
        sides[variant] = {row[:2]: row[2:] for row in shown.select(names).iter_rows()}
    rows = []
    for key, (gold, options, logprobs) in sides["original"].items():
        new_gold, new_options, new_logprobs = sides["twin"][key]
        old, new = options[letters.index(gold)], new_options[letters.index(new_gold)]
        original = dict(zip(options, logprobs, strict=True))
        twin = dict(zip(new_options, new_logprobs, strict=True))
        if old != new and new in original and old in twin:
            values = original[old], original[new], twin[old], twin[new]
            rows.append((*key, "twin", old, new, *values))
    scores = pl.DataFrame(rows, pl.DataFrame(empty_table("twin_scores")).schema, orient="row")
    others = tables.answers.filter(~pl.col("variant").is_in(["original", "twin"]))
    return replace(tables, answers=others, twin_scores=scores)


def _chances(
    right: NDArray[np.int64], chance: Floats, drawn: Floats, old: NDArray[np.int64]
) -> Floats:
    """Of each option: ``chance`` of the right one; of the others ``drawn`` goes to the old answer, and the
    first option is a favourite."""
    rows = np.arange(len(right))
    others = np.full((len(right), OPTIONS), (1 - FAVOURITE) / (OPTIONS - 1))
    others[:, 0] += FAVOURITE
    others[rows, right] = 0.0
    others /= others.sum(1, keepdims=True)
    back = np.where(old != right, drawn, 0.0)
    others *= (1.0 - back)[:, None]
    others[rows, old] += back
    others *= (1.0 - chance)[:, None]
    others[rows, right] = chance
    return others


def choice_logprobs(
    chances: Floats, chosen: NDArray[np.int64], rng: np.random.Generator, sharpness: float = 1.0
) -> Floats:
    """Log-probabilities of options of which ``chosen`` is the largest, where ``chances`` say how often each
    option is chosen: Gumbel noise makes that choice of logits, and is drawn here given the choice."""
    logits = np.log(np.clip(chances, LEAST_CHANCE, 1.0))
    rows = np.arange(len(chosen))
    top = rng.gumbel(size=len(chosen)) + np.log(np.exp(logits).sum(1))
    noisy = logits + rng.gumbel(size=logits.shape)
    below = -np.logaddexp(-top[:, None], -noisy)
    below[rows, chosen] = top
    below *= sharpness
    return np.asarray(below - np.log(np.exp(below).sum(1, keepdims=True)), dtype=np.float64)


def _frame(form: PlantedForm) -> pl.DataFrame:
    n = len(form.place)
    return pl.DataFrame(
        {
            "benchmark_id": [f"item{place:05d}" for place in range(n)],
            "model": [form.model] * n,
            "variant": [form.variant] * n,
            "draw": np.zeros(n, dtype=np.int32),
            "gold": _LETTERS[form.place],
            "parsed": np.where(form.outcome == "unparsed", "", _LETTERS[form.chosen]),
            "outcome": form.outcome,
            "template": ["planted/1"] * n,
            "choice_logprobs": pl.Series(form.logprobs).arr.to_list(),
        }
    )


def _items(codes: NDArray[np.int64], later: NDArray[np.bool_]) -> pl.DataFrame:
    n = len(codes)
    kinds = np.where(np.arange(n) % 3 == 0, "count", "colour")
    origins = np.where(later, "fresh", "public")
    metadata = [
        json.dumps({"category": kind, "origin": origin})
        for kind, origin in zip(kinds.tolist(), origins.tolist(), strict=True)
    ]
    whole = pl.DataFrame(empty_table("items"))
    return pl.concat(
        [
            whole,
            pl.DataFrame(
                {
                    "benchmark_id": [f"item{place:05d}" for place in range(n)],
                    "position": np.arange(n),
                    "cluster": [f"image{code:04d}" for code in codes],
                    "metadata": metadata,
                }
            ),
        ],
        how="diagonal",
    )
