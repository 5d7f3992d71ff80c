"""Recorded files of models whose memory is known, each made to mislead one rule of the verdict.

Clean models that look contaminated, and contaminated ones that look clean. `bench/verdicts.py` counts what
`heldout detect` calls them, and tests/verdict/test_verdict_rates.py holds a few of each to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.detect import CANONICAL, RELEASED, DetectSettings, ScoreTables, no_scores
from heldout.lab.power.planted_answers import choice_logprobs
from heldout.store import SCHEMAS, Run, empty_table

Floats = NDArray[np.float64]
Rng = np.random.Generator
MODEL = "model"
LETTERS = np.asarray(list("ABCD"))
GUESS = 0.25
PERMUTATIONS = 1_999  # p down to .0005: what these audits need


@dataclass(frozen=True)
class Recording:
    """One replicate: tables, and one or more looks at them (detectors, settings)."""

    tables: ScoreTables
    looks: Sequence[tuple[tuple[str, ...], DetectSettings]]
    claim: str  # the one that is counted
    others: tuple[float, ...] = ()  # p of the claims that were planned with it


@dataclass(frozen=True)
class Recipe:
    """``contaminated``: then *clean* is the mistake, else *survives*."""

    name: str
    make: Callable[[int], Recording]
    contaminated: bool = False


def write_run(recording: Recording, folder: Path) -> Run:
    """The same tables as a run folder, as `heldout score` and `heldout ask` leave them."""
    run = Run.create(folder, command=["verdicts"])
    run.update("inputs", {"benchmark": {"name": recording.tables.benchmark}})
    for name in ("items", "scores", "answers", "order_joint", "order_neighbour", "twin_scores"):
        frame = getattr(recording.tables, name)
        if frame is not None and len(frame):
            whole = pl.concat([pl.DataFrame(empty_table(name)), frame], how="diagonal_relaxed")
            run.write_table(name, whole.to_arrow().cast(SCHEMAS[name]))
    return run


# Answers


_ANSWERS = ("lung", "liver", "heart", "spleen", "kidney", "brain", "bone")


def item_ids(n: int) -> list[str]:
    return [f"item{place:05d}" for place in range(n)]


def items_of(
    clusters: Sequence[int], answers: Sequence[str] | None = None, fresh: Any = None
) -> pl.DataFrame:
    n = len(clusters)
    metadata = [
        json.dumps({} if fresh is None else {"origin": "fresh" if fresh[place] else "public"})
        for place in range(n)
    ]
    mine = pl.DataFrame(
        {
            "benchmark_id": item_ids(n),
            "position": np.arange(n),
            "cluster": [f"image{code:05d}" for code in clusters],
            "question": [f"question {place}" for place in range(n)],
            "answer": list(answers) if answers is not None else [_ANSWERS[p % 7] for p in range(n)],
            "metadata": metadata,
        }
    )
    return pl.concat([pl.DataFrame(empty_table("items")), mine], how="diagonal_relaxed")


def answers_of(
    model: str,
    variant: str,
    gold: NDArray[np.int64],
    right: NDArray[np.bool_],
    rng: Rng,
    *,
    options: Sequence[Sequence[str]] | None = None,
    said: NDArray[np.int64] | None = None,
    logprobs: Floats | None = None,
) -> pl.DataFrame:
    """``said``: the option of a wrong reply; any other one by default."""
    n = len(gold)
    wrong = (gold + rng.integers(1, len(LETTERS), n)) % len(LETTERS) if said is None else said
    frame = pl.DataFrame(
        {
            "benchmark_id": item_ids(n),
            "model": [model] * n,
            "variant": [variant] * n,
            "draw": np.zeros(n, dtype=np.int32),
            "gold": LETTERS[gold],
            "parsed": LETTERS[np.where(right, gold, wrong)],
            "outcome": np.where(right, "right", "wrong"),
            "template": ["simulated/1"] * n,
            "options": [list(row) for row in options] if options else [list("wxyz")] * n,
        },
        schema_overrides={"options": pl.List(pl.String)},
    )
    if logprobs is None:
        return frame
    return frame.with_columns(pl.Series("choice_logprobs", logprobs).arr.to_list())


def asked_tables(frames: Sequence[pl.DataFrame], clusters: Sequence[int]) -> ScoreTables:
    return ScoreTables("simulated", items_of(clusters), no_scores(), answers=pl.concat(frames))


def reference_names(count: int) -> list[str]:
    return [f"reference-{number}" for number in range(1, count + 1)]


def settings_for(references: Sequence[str], lineages: int = 0, **more: Any) -> DetectSettings:
    """``lineages``: of how many families the references are; 0: nobody says."""
    families = {
        name: f"family-{place % lineages}" for place, name in enumerate(references) if lineages
    }
    return DetectSettings.read(
        {
            "baselines": tuple(references),
            "families": families,
            "permutations": PERMUTATIONS,
            **more,
        }
    )


def twins_of(
    rng: Rng,
    chances: Mapping[str, tuple[Floats, Floats]],
    clusters: Sequence[int],
    old: Mapping[str, Floats] | None = None,
) -> ScoreTables:
    """By model the chance to be right on each original and on its twin, and ``old``: the chance that a wrong
    reply to the twin is the old answer for another reason than a guess."""
    n = len(clusters)
    gold = rng.integers(0, 4, n)
    twin = (gold + rng.integers(1, 4, n)) % 4
    frames = []
    doubts = np.random.default_rng(int(gold @ np.arange(n)))  # of its own: replies stay as they are
    for name, (first, second) in chances.items():
        right = rng.random(n) < first
        wrong = (gold + rng.integers(1, 4, n)) % 4
        believed = _believed(gold, first, gold, np.zeros(n))
        letters = choice_logprobs(believed, np.where(right, gold, wrong), doubts)
        frames.append(answers_of(name, "original", gold, right, rng, said=wrong, logprobs=letters))
        right, wrong = rng.random(n) < second, (twin + rng.integers(1, 4, n)) % 4
        attracted = old[name] if old is not None and name in old else np.zeros(n)
        if old is not None and name in old:
            wrong = np.where(rng.random(n) < old[name], gold, wrong)
        believed = _believed(twin, second, gold, attracted)
        letters = choice_logprobs(believed, np.where(right, twin, wrong), doubts)
        frames.append(answers_of(name, "twin", twin, right, rng, said=wrong, logprobs=letters))
    return asked_tables(frames, clusters)


def _believed(
    right: NDArray[np.int64], chance: Floats, old: NDArray[np.int64], attracted: Floats
) -> Floats:
    """How often each option is replied: the right one, the old answer, the others alike."""
    rows, n = np.arange(len(right)), len(right)
    believed = np.repeat(((1 - chance) * (1 - attracted) / 3)[:, None], 4, axis=1)
    believed[rows, old] += (1 - chance) * attracted
    believed[rows, right] = chance
    return np.asarray(believed, dtype=np.float64).reshape(n, 4)


TWIN_DROP = ("twin-drop",)


def unanswerable(
    seed: int, *, share: float, better: float, references: int = 1, lineages: int = 0, n: int = 495
) -> Recording:
    """A share of the twins cannot be answered by anybody; the model is better than its references."""
    rng = np.random.default_rng([seed, 1])
    ease, lost = rng.normal(size=n), rng.random(n) < share
    names = reference_names(references)
    chances = {}
    for name in (MODEL, *names):
        skill = special.expit(ease + (better if name == MODEL else 0.3 * rng.normal()))
        chances[name] = skill, np.where(lost, GUESS, skill)
    tables = twins_of(rng, chances, range(n))
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


def published(seed: int, *, lineages: int = 1, n: int = 495) -> Recording:
    """Published accuracies on originals and twins; how far items are hard for all is our guess."""
    rng = np.random.default_rng([seed, 2])
    rates = {MODEL: (0.62, 0.782)}
    rates |= dict(
        zip(reference_names(3), ((0.378, 0.693), (0.42, 0.73), (0.46, 0.77)), strict=True)
    )
    hard = rng.normal(size=n)
    chances = {
        name: tuple(
            special.ndtr((special.ndtri(rate) - np.sqrt(0.5) * hard) / np.sqrt(0.5))
            for rate in pair
        )
        for name, pair in rates.items()
    }
    tables = twins_of(rng, chances, range(n))
    settings = settings_for(reference_names(3), lineages)
    return Recording(tables, [(TWIN_DROP, settings)], f"twin-drop/{MODEL}")


def harder(
    seed: int,
    *,
    spread: float = 0.37,
    harder: float = 0.3,
    references: int = 1,
    lineages: int = 0,
    n: int = 495,
) -> Recording:
    """Twins are a little harder, and how much so differs between clean models."""
    rng = np.random.default_rng([seed, 3])
    ease = rng.normal(size=n)
    names = reference_names(references)
    chances = {}
    for name in (MODEL, *names):
        first = ease + 0.3 * rng.normal()
        chances[name] = (
            special.expit(first),
            special.expit(first - harder + spread * rng.normal()),
        )
    tables = twins_of(rng, chances, range(n))
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


def remembered(
    seed: int, *, known: float, references: int = 3, lineages: int = 3, n: int = 495
) -> Recording:
    """A model that recalls a share of the answers, on the original as on the twin; twins are easier."""
    rng = np.random.default_rng([seed, 4])
    ease, recalled = rng.normal(size=n), rng.random(n) < known
    names = reference_names(references)
    chances = {}
    for name in (MODEL, *names):
        first = ease + 0.3 * rng.normal()
        own = special.expit(first), special.expit(first + 0.3 + 0.15 * rng.normal())
        mine = recalled if name == MODEL else np.zeros(n, dtype=bool)
        chances[name] = np.where(mine, 1.0, own[0]), np.where(mine, 0.05, own[1])
    tables = twins_of(rng, chances, range(n), {MODEL: recalled.astype(float)})
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


def faint(
    seed: int,
    *,
    nats: float,
    leaked: float = 0.5,
    references: int = 3,
    lineages: int = 3,
    n: int = 495,
) -> Recording:
    """A model that leans to the old answers of the leaked items, by some nats, on both pictures."""
    rng = np.random.default_rng([seed, 17])
    ease, seen = rng.normal(size=n), rng.random(n) < leaked
    names = reference_names(references)
    chances, old = {}, {}
    for name in (MODEL, *names):
        level = ease + 0.3 * rng.normal()
        first, second = special.expit(level), special.expit(level + 0.3 + 0.15 * rng.normal())
        lean = np.exp(np.where(seen, nats, 0.0) if name == MODEL else np.zeros(n))
        # One of three wrong options is weighted by the lean: so many replies are right, and are the old answer.
        weight = second + (1 - second) * (2 + lean) / 3
        chances[name] = first * lean / (first * lean + 1 - first), second / weight
        old[name] = (lean - 1) / (lean + 2)
    tables = twins_of(rng, chances, range(n), old)
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


def alike(
    seed: int,
    *,
    share: float = 0.25,
    better: float = 0.8,
    references: int = 3,
    lineages: int = 3,
    n: int = 495,
) -> Recording:
    """A share of the twins shows what the original shows, so that who sees it gives the old answer."""
    rng = np.random.default_rng([seed, 15])
    ease, failed = rng.normal(size=n), rng.random(n) < share
    names = reference_names(references)
    chances, old = {}, {}
    for name in (MODEL, *names):
        skill = special.expit(ease + 0.3 * rng.normal() + (better if name == MODEL else 0.0))
        chances[name] = skill, np.where(failed, GUESS * (1 - skill), skill)
        old[name] = np.where(failed, skill / (1 - GUESS * (1 - skill)), 0.0)
    tables = twins_of(rng, chances, range(n), old)
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


def subtle(
    seed: int,
    *,
    better: float = 0.8,
    references: int = 3,
    lineages: int = 3,
    n: int = 495,
) -> Recording:
    """The harder a twin, the more it looks like its original, and the model is wrong on hard ones alone."""
    rng = np.random.default_rng([seed, 16])
    ease = 1.5 * rng.normal(size=n)
    pull = special.expit(-ease - 0.5)
    names = reference_names(references)
    chances = {}
    for name in (MODEL, *names):
        skill = special.expit(ease + 0.3 * rng.normal() + (better if name == MODEL else 0.0))
        chances[name] = skill, skill
    tables = twins_of(rng, chances, range(n), dict.fromkeys(chances, pull))
    return Recording(tables, [(TWIN_DROP, settings_for(names, lineages))], f"twin-drop/{MODEL}")


_NATURAL = (
    ["2", "4", "6", "8"],
    ["1 cm", "2.5 cm", "4 cm", "7 cm"],
    ["1991", "1995", "2003", "2010"],
    ["left lung", "right lung", "both", "None of the above"],
    ["the first", "the second", "the third", "All of the above"],
    ["10-20 %", "20-30 %", "30-40 %", "40-50 %"],
)
_PLAIN = (["liver", "spleen", "kidney", "heart"], ["red", "grey", "blue", "green"])


def natural_order(
    seed: int,
    *,
    n: int,
    helped: float = 0.08,
    natural: float = 0.6,
    references: int = 1,
    lineages: int = 0,
) -> Recording:
    """Options in a natural order are easier for the model than shuffled ones, and not for others."""
    rng = np.random.default_rng([seed, 5])
    ordered = rng.random(n) < natural
    shown = [
        (_NATURAL if kind else _PLAIN)[int(rng.integers(len(_NATURAL if kind else _PLAIN)))]
        for kind in ordered
    ]
    gold = rng.integers(0, 4, n)
    ease = rng.normal(size=n)
    names = reference_names(references)
    frames = []
    for name in (MODEL, *names):
        skill = special.expit(ease + 0.3 * rng.normal())
        gain = np.where(ordered, helped / natural, 0.0) if name == MODEL else 0.0
        right = rng.random(n) < np.minimum(skill + gain, 1.0)
        frames.append(answers_of(name, "original", gold, right, rng, options=shown))
        for turn in (1, 2, 3):
            moved = np.argsort(rng.random((n, 4)), axis=1)
            lists = [
                [row[place] for place in order] for row, order in zip(shown, moved, strict=True)
            ]
            where = np.argmax(moved == gold[:, None], axis=1)
            right = rng.random(n) < skill
            frames.append(answers_of(name, f"shuffle-{turn}", where, right, rng, options=lists))
    tables = asked_tables(frames, range(n))
    settings = settings_for(names, lineages)
    return Recording(tables, [(("option-order",), settings)], f"option-order/{MODEL}")


PROBES = {"twin-drop": "twin", "choice-confusion": "confused-choices", "slot-guess": "slot"}


def many_looks(
    seed: int, *, planned: bool = False, lineages: int = 0, spread: float = 0.25, n: int = 300
) -> Recording:
    """Three probes against each of four references, one look each; ``planned``: the first alone."""
    rng = np.random.default_rng([seed, 6])
    ease, gold = rng.normal(size=n), rng.integers(0, 4, n)
    names = reference_names(4)
    frames = []
    for name in (MODEL, *names):
        skill = ease + 0.3 * rng.normal()
        for variant in ("original", "twin", "confused-choices", "slot", "slot-paraphrase"):
            moved = 0.0 if variant in ("original", "slot") else spread * rng.normal()
            right = rng.random(n) < special.expit(skill + moved)
            frames.append(answers_of(name, variant, gold, right, rng))
    tables = asked_tables(frames, range(n))
    looks = [((probe,), settings_for([name], lineages)) for probe in PROBES for name in names]
    return Recording(tables, looks[:1] if planned else looks, "")


def smuggled(seed: int, *, claims: int = 98, pictures: int = 40, n: int = 120) -> Recording:
    """Nearly every twin is answered with the old answer, in a large audit of a small benchmark."""
    rng = np.random.default_rng([seed, 7])
    gold = rng.integers(0, 4, n)
    twin = (gold + rng.integers(1, 4, n)) % 4
    clusters = np.arange(n) % pictures
    frames = []
    for name in (MODEL, "reference-1"):
        falls = rng.random(n) < (0.95 if name == MODEL else 0.0)
        first = np.ones(n, dtype=bool) if name == MODEL else rng.random(n) < 0.7
        second = np.where(falls, False, rng.random(n) < 0.7)
        frames.append(answers_of(name, "original", gold, first, rng))
        frames.append(answers_of(name, "twin", twin, second, rng, said=gold))
    looks = [(TWIN_DROP, settings_for(["reference-1"]))]
    others = tuple(rng.random(claims - 1))
    return Recording(asked_tables(frames, clusters.tolist()), looks, f"twin-drop/{MODEL}", others)


# Scores


def _scores(model: str, ease: Floats) -> pl.DataFrame:
    n = len(ease)
    return pl.DataFrame(
        {
            "benchmark_id": item_ids(n),
            "model": [model] * n,
            "sum_logprob": ease - 6.0,
            "n_tokens": np.ones(n, dtype=np.int32),
            "span_ok": [True] * n,
        }
    )


def scored_tables(
    by_model: Mapping[str, Floats], items: pl.DataFrame, **tables: Any
) -> ScoreTables:
    frames = [_scores(name, ease) for name, ease in by_model.items()]
    whole = pl.concat([no_scores(), *frames], how="diagonal_relaxed")
    return ScoreTables("simulated", items, whole, **tables)


def topics_in_context(
    seed: int,
    *,
    gain: float = 0.3,
    baseline: float = 0.0,
    spread: float = 0.0,
    references: int = 1,
    lineages: int = 0,
    shards: int = 12,
    shuffles: int = 8,
) -> Recording:
    """Topics come in runs of four: a neighbour of the same topic helps a model by so many nats."""
    rng = np.random.default_rng([seed, 8])
    names = reference_names(references)
    rows = []
    topics = np.repeat(np.arange(4), 4)
    for name in (MODEL, *names):
        helped = gain if name == MODEL else baseline
        helped += spread * rng.normal()
        for shard in range(shards):
            level = rng.normal(-300.0, 40.0)
            for order in range(shuffles + 1):
                read = topics if order == 0 else rng.permutation(topics)
                same = int((read[1:] == read[:-1]).sum())
                value = level + helped * same + rng.normal(scale=2.0)
                label = CANONICAL if order == 0 else str(order - 1)
                rows.append((name, shard, label, value))
    joint = pl.DataFrame(rows, ["model", "shard", "permutation", "logprob"], orient="row")
    n = 16 * shards
    scores = {name: rng.normal(size=n) for name in (MODEL, *names)}
    tables = scored_tables(scores, items_of(range(n)), order_joint=joint.cast({"shard": pl.Int32}))
    return Recording(tables, [(("order-joint",), settings_for(names, lineages))], f"order/{MODEL}")


def shared_difficulty(
    seed: int,
    *,
    alike: float = 0.5,
    baseline: float,
    references: int = 1,
    lineages: int = 0,
    n: int = 500,
) -> Recording:
    """Two clean models find the same items easy; the references less so."""
    rng = np.random.default_rng([seed, 9])
    easy, own = rng.normal(size=n), rng.normal(size=n)
    weight = baseline / np.sqrt(alike) if alike else 0.0
    names = reference_names(references)
    scores = {
        name: np.sqrt(alike) * easy + np.sqrt(1 - alike) * rng.normal(size=n)
        for name in (MODEL, "other")
    }
    scores |= {
        name: weight * easy + np.sqrt(1 - weight**2) * (own if place == 0 else rng.normal(size=n))
        for place, name in enumerate(names)
    }
    tables = scored_tables(scores, items_of(range(n)))
    return Recording(
        tables, [(("top-k-overlap",), settings_for(names, lineages))], f"cohort/{MODEL} & other"
    )


def unequal_clusters(seed: int, *, suspects: tuple[int, int], fresh: tuple[int, int]) -> Recording:
    """Images and questions of each; no item is easier for having been public."""
    rng = np.random.default_rng([seed, 10])
    images = suspects[0] + fresh[0]
    sizes = np.asarray([suspects[1]] * suspects[0] + [fresh[1]] * fresh[0])
    codes = np.repeat(np.arange(images), sizes)
    order = rng.permutation(images)  # released in any order
    codes = order[codes]
    is_fresh = np.repeat(np.arange(images) >= suspects[0], sizes)
    place = np.argsort(codes, kind="stable")
    codes, is_fresh = codes[place], is_fresh[place]

    def ease() -> Floats:
        return np.asarray(0.3 * rng.normal(size=images)[codes] + rng.normal(size=len(codes)))

    scores = {MODEL: ease(), "reference-1": ease()}
    tables = scored_tables(scores, items_of(codes.tolist(), fresh=is_fresh))
    settings = settings_for(["reference-1"], unseen=("origin", "fresh"))
    return Recording(tables, [(("loss", "blind"), settings)], f"membership/{MODEL}")


def topic_runs(seed: int, *, run: int = 0, lag: float = 0.0, n: int = 300) -> Recording:
    """Items of a topic stand together and are easy together, or each depends on the one before."""
    rng = np.random.default_rng([seed, 11])

    def ease() -> Floats:
        if run:
            return np.repeat(rng.normal(size=n // run + 1), run)[:n] + rng.normal(size=n)
        values = rng.normal(size=n)
        for place in range(1, n):
            values[place] += lag * values[place - 1]
        return values

    tables = scored_tables({MODEL: ease(), "reference-1": ease()}, items_of(range(n)))
    return Recording(tables, [(("order-trend",), settings_for(["reference-1"]))], f"order/{MODEL}")


def few_images(seed: int, *, images: int = 6, each: int = 5) -> Recording:
    """Every item is likelier after its released predecessor by three nats; there are six images."""
    rng = np.random.default_rng([seed, 12])
    n = images * each
    ids = item_ids(n)
    frames = []
    for name in (MODEL, "reference-1"):
        for condition in (RELEASED, ids[0]):
            gain = 3.0 if name == MODEL and condition == RELEASED else 0.0
            noise = rng.normal(-8.0, 0.5, n - 2)
            frames.append(
                pl.DataFrame(
                    {
                        "benchmark_id": ids[2:],
                        "model": [name] * (n - 2),
                        "condition": [condition] * (n - 2),
                        "logprob": gain + noise,
                    }
                )
            )
    scores = {name: rng.normal(size=n) for name in (MODEL, "reference-1")}
    items = items_of(np.repeat(np.arange(images), each).tolist())
    tables = scored_tables(scores, items, order_neighbour=pl.concat(frames))
    looks = [(("order-neighbour", "order-trend"), settings_for(["reference-1"]))]
    return Recording(tables, looks, f"order/{MODEL}")


def few_shards(seed: int, *, shards: int, beside: bool) -> Recording:
    """The released order of one or two shards is likelier by twenty standard deviations."""
    rng = np.random.default_rng([seed, 13])
    rows = [
        (name, shard, CANONICAL if not order else str(order - 1), value)
        for name in (MODEL, "reference-1")
        for shard in range(shards)
        for order, value in enumerate(
            rng.normal(-300.0, 1.0, 5) + (20.0 if name == MODEL else 0.0) * (np.arange(5) == 0)
        )
    ]
    joint = pl.DataFrame(rows, ["model", "shard", "permutation", "logprob"], orient="row")
    scores = {name: rng.normal(size=60) for name in (MODEL, "reference-1")}
    tables = scored_tables(scores, items_of(range(60)), order_joint=joint.cast({"shard": pl.Int32}))
    names = ("order-joint", "order-trend") if beside else ("order-joint",)
    return Recording(tables, [(names, settings_for(["reference-1"]))], f"order/{MODEL}")


def other_lengths(seed: int, *, overlap: float = 0.02, n: int = 200) -> Recording:
    """Suspects are far likelier than fresh items, which have longer answers."""
    rng = np.random.default_rng([seed, 14])
    is_fresh = np.arange(n) >= n // 2
    long = np.where(rng.random(n) < overlap, ~is_fresh, is_fresh)
    answers = ["one two three four five six seven eight nine" if w else "lung" for w in long]
    scores = {
        MODEL: rng.normal(size=n) + np.where(is_fresh, 0.0, 1.8),
        "reference-1": rng.normal(size=n),
    }
    tables = scored_tables(scores, items_of(range(n), answers, is_fresh))
    settings = settings_for(["reference-1"], unseen=("origin", "fresh"))
    return Recording(tables, [(("loss", "blind"), settings)], f"membership/{MODEL}")


CLEAN: tuple[Recipe, ...] = (
    Recipe(
        "twins: 75 % unanswerable, model better by .8",
        partial(unanswerable, share=0.75, better=0.8),
    ),
    Recipe(
        "twins: 75 % unanswerable, model better by 1.6",
        partial(unanswerable, share=0.75, better=1.6),
    ),
    Recipe(
        "twins: 90 % unanswerable, model better by 1.6",
        partial(unanswerable, share=0.9, better=1.6),
    ),
    Recipe("twins: published rates, three references of one lineage", published),
    Recipe("twins: published rates, three families named", partial(published, lineages=3)),
    Recipe("twins harder by an SD of .37, one reference", harder),
    Recipe("order-joint: topic runs, baseline gains 0", topics_in_context),
    Recipe("order-joint: topic runs, baseline gains .1", partial(topics_in_context, baseline=0.1)),
    Recipe(
        "top-k: difficulty shared at .5, baseline .05", partial(shared_difficulty, baseline=0.05)
    ),
    Recipe("top-k: difficulty shared at .5, baseline .2", partial(shared_difficulty, baseline=0.2)),
    Recipe("option-order: natural orders, 495 items", partial(natural_order, n=495)),
    Recipe("option-order: natural orders, 1,500 items", partial(natural_order, n=1500)),
    Recipe("three probes × four references, best of 12 looks", many_looks),
    Recipe("three probes × four references, one planned look", partial(many_looks, planned=True)),
    Recipe(
        "membership: 90 images of 8 questions, 10 fresh of 1",
        partial(unequal_clusters, suspects=(90, 8), fresh=(10, 1)),
    ),
    Recipe(
        "membership: 10 images of 1 question, 90 fresh of 8",
        partial(unequal_clusters, suspects=(10, 1), fresh=(90, 8)),
    ),
    Recipe("order-trend: topic runs of 8", partial(topic_runs, run=8)),
    Recipe("order-trend: topic runs of 24", partial(topic_runs, run=24)),
    Recipe("order-trend: AR(.5)", partial(topic_runs, lag=0.5)),
)
THREE: tuple[Recipe, ...] = (  # references of three families, as a claim that survives needs
    Recipe(
        "twins harder by an SD of .37, references of three families",
        partial(harder, references=3, lineages=3),
    ),
    Recipe(
        "order-joint: gains of .1 with an SD of .1, references of three families",
        partial(topics_in_context, gain=0.1, baseline=0.1, spread=0.1, references=3, lineages=3),
    ),
    Recipe(
        "20 % of the answers remembered, references of three families",
        partial(remembered, known=0.2),
        True,
    ),
    Recipe(
        "40 % of the answers remembered, references of three families",
        partial(remembered, known=0.4),
        True,
    ),
)
CONTAMINATED: tuple[Recipe, ...] = (
    Recipe("95 % of twins get the old answer, 98 claims", smuggled, True),
    Recipe("order-neighbour: six images, +3 nats an item", few_images, True),
    Recipe(
        "order-joint: 1 shard × 4 shuffles, +20 SD",
        partial(few_shards, shards=1, beside=False),
        True,
    ),
    Recipe(
        "order-joint: 2 × 4 beside order-trend, +20 SD",
        partial(few_shards, shards=2, beside=True),
        True,
    ),
    Recipe("loss: fresh items of other answer lengths", other_lengths, True),
)
_FAMILIES = {"references": 3, "lineages": 3}
#: twins looked at by each detector of twins, beside references of three families
TWINS: tuple[Recipe, ...] = (
    Recipe(
        "75 % unanswerable, model better by .8",
        partial(unanswerable, share=0.75, better=0.8, **_FAMILIES),
    ),
    Recipe(
        "75 % unanswerable, model better by 1.6",
        partial(unanswerable, share=0.75, better=1.6, **_FAMILIES),
    ),
    Recipe(
        "90 % unanswerable, model better by 1.6",
        partial(unanswerable, share=0.9, better=1.6, **_FAMILIES),
    ),
    Recipe("published rates", partial(published, lineages=3)),
    Recipe("harder by an SD of .37", partial(harder, **_FAMILIES)),
    Recipe("25 % show the original, model better by .8", alike),
    Recipe("harder twins look more like the original, model better by .8", subtle),
    Recipe("5 % of the answers remembered", partial(remembered, known=0.05), True),
    Recipe("10 % of the answers remembered", partial(remembered, known=0.1), True),
    Recipe("20 % of the answers remembered", partial(remembered, known=0.2), True),
    Recipe("40 % of the answers remembered", partial(remembered, known=0.4), True),
    Recipe("half of the answers leant to, .5 nats", partial(faint, nats=0.5), True),
    Recipe("half of the answers leant to, 1 nat", partial(faint, nats=1.0), True),
)


def looked_at_by(detector: str, recording: Recording) -> Recording:
    """The same recording, looked at by this detector instead."""
    looks = [((detector,), settings) for _, settings in recording.looks]
    return replace(recording, looks=looks, claim=f"{detector}/{MODEL}")
