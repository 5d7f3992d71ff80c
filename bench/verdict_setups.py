"""Further set-ups that users meet: references of another skill, favourite answers, replies that cannot be read.

`verdict_recipes.py` has the recipes of single rules; these are benchmarks and models as people record them, on
which several rules together went wrong. `bench/verdicts.py` counts them in tables of their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.detect import CANONICAL, RELEASED, ScoreTables, no_scores
from verdict_recipes import (
    GUESS,
    LETTERS,
    MODEL,
    TWIN_DROP,
    Recipe,
    Recording,
    Rng,
    answers_of,
    asked_tables,
    harder,
    item_ids,
    items_of,
    looked_at_by,
    reference_names,
    remembered,
    scored_tables,
    settings_for,
    twins_of,
)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
BODY = ("liver", "spleen", "kidney", "heart")
FRESH = ("origin", "fresh")


# References of another skill


def other_skill(seed: int, *, mine: float, theirs: float, harder: float, n: int = 495) -> Recording:
    """Twins are harder by so many logits, and the references far better or worse than the model."""
    rng = np.random.default_rng([seed, 20])
    ease, names = rng.normal(size=n), reference_names(3)
    chances = {}
    for name in (MODEL, *names):
        level = ease + (mine if name == MODEL else theirs + 0.3 * rng.normal())
        changed = level - harder + 0.1 * rng.normal()
        chances[name] = special.expit(level), special.expit(changed)
    tables = twins_of(rng, chances, range(n))
    return Recording(tables, [(TWIN_DROP, settings_for(names, 3))], f"twin-drop/{MODEL}")


def at_ceiling(seed: int, *, drop: float, claims: int = 1, n: int = 495) -> Recording:
    """Everybody knows everything; the model alone loses a share of the twins. Other claims are planned with it."""
    rng = np.random.default_rng([seed, 28])
    names, all_right = reference_names(3), np.ones(n)
    chances = dict.fromkeys(names, (all_right, all_right))
    chances[MODEL] = all_right, all_right - drop
    tables = twins_of(rng, chances, range(n))
    looks = [(TWIN_DROP, settings_for(names, 3))]
    return Recording(tables, looks, f"twin-drop/{MODEL}", tuple(rng.random(claims - 1)))


def one_category(seed: int, *, share: float = 0.05, n: int = 495) -> Recording:
    """The model remembers one category, a small share of the items, and the user asks for categories."""
    rng = np.random.default_rng([seed, 29])
    names, ease, seen = reference_names(3), rng.normal(size=n), np.arange(n) < share * n
    chances = {}
    for name in (MODEL, *names):
        level = ease + 0.3 * rng.normal()
        own = special.expit(level), special.expit(level + 0.1 * rng.normal())
        mine = seen & (name == MODEL)
        chances[name] = np.where(mine, 1.0, own[0]), np.where(mine, 0.02, own[1])
    tables = twins_of(rng, chances, range(n), {MODEL: seen.astype(float)})
    topics = pl.Series([json.dumps({"topic": "chart" if kind else "photo"}) for kind in seen])
    tables = replace(tables, items=tables.items.with_columns(metadata=topics))
    looks = [(TWIN_DROP, settings_for(names, 3, category="topic"))]
    return Recording(tables, looks, f"twin-drop/{MODEL}")


def harder_fresh(
    seed: int, *, mine: float = 1.0, theirs: float, harder: float = 0.7, n: int = 600
) -> Recording:
    """Fresh items are harder; with four options, references near chance or near the ceiling lose little."""
    rng = np.random.default_rng([seed, 21])
    names, gold = reference_names(3), rng.integers(0, 4, n)
    fresh = rng.permutation(np.arange(n) >= n // 2)
    ease, frames = rng.normal(size=n), []
    for name in (MODEL, *names):
        level = ease + (mine if name == MODEL else theirs + 0.3 * rng.normal())
        level = level - fresh * (harder + 0.1 * rng.normal())
        right = rng.random(n) < GUESS + (1 - GUESS) * special.expit(level)
        frames.append(answers_of(name, "original", gold, right, rng))
    items = items_of(range(n), fresh=fresh)
    tables = ScoreTables("simulated", items, no_scores(), answers=pl.concat(frames))
    looks = [(("fresh-drop",), settings_for(names, 3, unseen=FRESH))]
    return Recording(tables, looks, f"fresh-drop/{MODEL}")


def harder_pictures(
    seed: int, *, sees: float, references: int = 1, lineages: int = 0, n: int = 300
) -> Recording:
    """Fresh pictures are harder, which words do not show, and the references see less than the model."""
    rng = np.random.default_rng([seed, 22])
    fresh, names = rng.permutation(np.arange(n) >= n // 2), reference_names(references)
    ease = rng.normal(size=n) - 0.5 * fresh
    scores = {MODEL: ease + 0.5 * rng.normal(size=n)}
    scores |= {name: sees * ease + rng.normal(size=n) - (1 - sees) for name in names}
    tables = scored_tables(scores, items_of(range(n), fresh=fresh))
    looks = [(("loss", "blind"), settings_for(names, lineages, unseen=FRESH))]
    return Recording(tables, looks, f"membership/{MODEL}")


def few_fresh(seed: int, *, fresh: int, nats: float = 0.0, n: int = 200) -> Recording:
    """Few images are fresh; the answers to the others are likelier to the model by so many nats."""
    rng = np.random.default_rng([seed, 30])
    is_fresh, names = rng.permutation(np.arange(n) < fresh), reference_names(3)
    ease = 0.7 * rng.normal(size=n)
    scores = {name: ease + rng.normal(size=n) for name in (MODEL, *names)}
    scores[MODEL] = scores[MODEL] + nats * ~is_fresh
    tables = scored_tables(scores, items_of(range(n), fresh=is_fresh))
    looks = [(("loss", "blind"), settings_for(names, 3, unseen=FRESH))]
    return Recording(tables, looks, f"membership/{MODEL}")


def lost_wrong(seed: int, *, lost: float = 0.09, known: float = 0.1, n: int = 495) -> Recording:
    """A model remembers a share of the answers, and its file lacks some of its wrong replies to twins."""
    recording = remembered(seed, known=known, n=n)
    answers = recording.tables.answers
    assert answers is not None
    mine = (pl.col("model") == MODEL) & (pl.col("variant") == "twin")
    wrong = answers.filter(mine, pl.col("outcome") == "wrong")["benchmark_id"]
    gone = wrong.sample(int(lost * n), seed=seed).to_list()
    kept = answers.filter(~(mine & pl.col("benchmark_id").is_in(gone)))
    return replace(recording, tables=replace(recording.tables, answers=kept))


def one_reference(seed: int, *, spread: float = 0.37, n: int = 495) -> Recording:
    """Twins are not equally hard for all clean models, and one reference stands there under three names."""
    recording = harder(seed, spread=spread, harder=-0.5, references=3, lineages=3, n=n)
    answers = recording.tables.answers
    assert answers is not None
    first, *others = reference_names(3)
    own = answers.filter(pl.col("model") == first)
    again = [own.with_columns(pl.lit(name).alias("model")) for name in others]
    both = pl.concat([answers.filter(~pl.col("model").is_in(others)), *again])
    return replace(recording, tables=replace(recording.tables, answers=both))


def neighbouring_topics(
    seed: int,
    *,
    gain: float = 0.3,
    weaker: float = 1.0,
    references: int = 1,
    lineages: int = 0,
    images: int = 60,
    each: int = 3,
) -> Recording:
    """A neighbour of the same topic helps the model; the references read worse and make nothing of it."""
    rng = np.random.default_rng([seed, 23])
    n, names = images * each, reference_names(references)
    ids, frames = item_ids(n), []
    for name in (MODEL, *names):
        helped, level = (gain, -8.0) if name == MODEL else (0.0, -8.0 - weaker)
        for condition in (RELEASED, "first", "second"):
            same = np.ones(n) if condition == RELEASED else rng.random(n) < 0.4
            values = level + helped * same + 0.5 * rng.normal(size=n)
            row = {"benchmark_id": ids, "model": name, "condition": condition, "logprob": values}
            frames.append(pl.DataFrame(row)[1:])
    scores = {name: rng.normal(size=n) for name in (MODEL, *names)}
    items = items_of(np.repeat(np.arange(images), each).tolist())
    tables = scored_tables(scores, items, order_neighbour=pl.concat(frames))
    looks = [(("order-neighbour",), settings_for(names, lineages))]
    return Recording(tables, looks, f"order/{MODEL}")


def joint_topics(
    seed: int,
    *,
    gain: float = 0.3,
    weaker: float = 20.0,
    memory: float = 0.0,
    shards: int = 12,
    shuffles: int = 8,
) -> Recording:
    """The same for shards of sixteen items, whose topics come in runs of four; three families of references.

    ``memory``: nats per shard by which the released order itself is likelier to the model."""
    rng = np.random.default_rng([seed, 24])
    names, topics = reference_names(3), np.repeat(np.arange(4), 4)
    levels = rng.normal(-300.0, 40.0, shards)
    rows = []
    for name in (MODEL, *names):
        helped = gain if name == MODEL else 0.0
        for shard, level in enumerate(levels - (0.0 if name == MODEL else weaker)):
            for order in range(shuffles + 1):
                read = topics if order == 0 else rng.permutation(topics)
                value = level + helped * int((read[1:] == read[:-1]).sum()) + 2 * rng.normal()
                value += memory if name == MODEL and order == 0 else 0.0
                rows.append((name, shard, CANONICAL if order == 0 else str(order - 1), value))
    joint = pl.DataFrame(rows, ["model", "shard", "permutation", "logprob"], orient="row")
    n = 16 * shards
    scores = {name: rng.normal(size=n) for name in (MODEL, *names)}
    tables = scored_tables(scores, items_of(range(n)), order_joint=joint.cast({"shard": pl.Int32}))
    return Recording(tables, [(("order-joint",), settings_for(names, 3))], f"order/{MODEL}")


# Favourite answers, and replies that cannot be read


def _replies(
    model: str,
    variant: str,
    gold: Ints,
    said: Ints,
    words: Sequence[str] | None = None,
    options: Sequence[Sequence[str]] | None = None,
    lost: Mask | None = None,
) -> pl.DataFrame:
    """``words``: of items without options; ``lost``: replies that cannot be read."""
    n = len(gold)
    names = LETTERS if words is None else np.asarray(words)
    outcome = np.where(said == gold, "right", "wrong")
    return pl.DataFrame(
        {
            "benchmark_id": item_ids(n),
            "model": [model] * n,
            "variant": [variant] * n,
            "draw": np.zeros(n, dtype=np.int32),
            "gold": names[gold],
            "parsed": names[said] if lost is None else np.where(lost, "", names[said]),
            "outcome": outcome if lost is None else np.where(lost, "unparsed", outcome),
            "template": ["simulated/1"] * n,
            "options": [list(row) for row in options] if options is not None else [[]] * n,
        },
        schema_overrides={"options": pl.List(pl.String)},
    )


def _reordered(rng: Rng, gold: Ints) -> dict[str, tuple[Ints, list[list[str]]]]:
    """By variant where the right option stands, and the options as they are shown."""
    forms = {}
    for turn in (1, 2, 3):
        moved = np.argsort(rng.random((len(gold), 4)), axis=1)
        shown = [[BODY[place] for place in order] for order in moved]
        forms[f"shuffle-{turn}"] = np.argmax(moved == gold[:, None], axis=1), shown
    return forms


def picks_a(
    seed: int, *, detector: str, at_a: float = 0.9, everywhere: bool = False, n: int = 495
) -> Recording:
    """Who is unsure picks A, and the release puts the right answers of its hard half (or of all items) there."""
    rng = np.random.default_rng([seed, 25])
    names, hard = reference_names(3), rng.random(n) < 0.5
    put = (rng.random(n) < at_a) & (hard | everywhere)
    gold = np.where(put, 0, rng.integers(0, 4, n))
    shown = [list(BODY)] * n
    forms = {"original": (gold, shown), "twin": ((gold + rng.integers(1, 4, n)) % 4, shown)}
    forms |= _reordered(rng, gold)
    frames = []
    for name in (MODEL, *names):
        knows = special.expit(
            np.where(hard, -1.5, 2) + 0.5 * rng.normal(size=n) + 0.3 * rng.normal()
        )
        for variant, (right, options) in forms.items():
            guess = np.zeros(n, dtype=np.int64) if name == MODEL else rng.integers(0, 4, n)
            said = np.where(rng.random(n) < knows, right, guess)
            frames.append(_replies(name, variant, right, said, options=options))
    tables = asked_tables(frames, range(n))
    return Recording(tables, [((detector,), settings_for(names, 3))], f"{detector}/{MODEL}")


def says_yes(seed: int, *, everywhere: bool = False, n: int = 495) -> Recording:
    """Who is unsure says yes; yes is right for most of the hard half (or of all items) as released."""
    rng = np.random.default_rng([seed, 26])
    names, hard = reference_names(3), rng.random(n) < 0.5
    yes = np.full(n, 0.7) if everywhere else np.where(hard, 0.9, 0.5)
    gold = np.where(rng.random(n) < yes, 0, 1)
    frames = []
    for name in (MODEL, *names):
        knows = special.expit(np.where(hard, -1.5, 2) + 0.3 * rng.normal())
        for variant, right in (("original", gold), ("twin", 1 - gold)):
            guess = np.zeros(n, dtype=np.int64) if name == MODEL else rng.integers(0, 2, n)
            said = np.where(rng.random(n) < knows, right, guess)
            frames.append(_replies(name, variant, right, said, words=("yes", "no")))
    tables = asked_tables(frames, range(n))
    return Recording(tables, [(TWIN_DROP, settings_for(names, 3))], f"twin-drop/{MODEL}")


def unreadable(
    seed: int,
    *,
    detector: str,
    of: str,
    variant: str,
    lost: float = 0.4,
    known: float = 0.0,
    n: int = 495,
) -> Recording:
    """Replies of the model or of its references cannot be read, in one form alone.

    ``known``: share of the items whose answer the model remembers."""
    rng = np.random.default_rng([seed, 27])
    names, gold = reference_names(3), rng.integers(0, 4, n)
    ease, recalled = 0.5 + rng.normal(size=n), rng.random(n) < known
    shown = [list(BODY)] * n
    forms = {"original": (gold, shown), "twin": ((gold + rng.integers(1, 4, n)) % 4, shown)}
    forms |= _reordered(rng, gold) if detector == "combined" else {}
    frames = []
    for name in (MODEL, *names):
        level = ease + 0.3 * rng.normal()
        for form, (right, options) in forms.items():
            sees = rng.random(n) < special.expit(level + 0.1 * rng.normal())
            said = np.where(sees, right, (right + rng.integers(1, 4, n)) % 4)
            said = np.where(recalled & (name == MODEL), gold, said)
            here = form == variant and (of == "model") == (name == MODEL)
            gone = rng.random(n) < lost if here else None
            frames.append(_replies(name, form, right, said, options=options, lost=gone))
    tables = asked_tables(frames, range(n))
    return Recording(tables, [((detector,), settings_for(names, 3))], f"{detector}/{MODEL}")


def ceiling(seed: int, *, detector: str) -> Recording:
    """References that know nearly everything lose nothing by harder twins."""
    return looked_at_by(detector, other_skill(seed, mine=0.5, theirs=6.0, harder=1.0))


CLEAN_SETUPS: tuple[Recipe, ...] = (
    Recipe(
        "twin-drop: harder twins, references at the ceiling", partial(ceiling, detector="twin-drop")
    ),
    Recipe(
        "twin-drop: harder twins, references near it",
        partial(other_skill, mine=0.0, theirs=3.5, harder=0.4),
    ),
    Recipe(
        "twin-margin: harder twins, references at the ceiling",
        partial(ceiling, detector="twin-margin"),
    ),
    Recipe(
        "twin-drop: picks A when unsure, hard half at A", partial(picks_a, detector="twin-drop")
    ),
    Recipe(
        "twin-memory: picks A when unsure, hard half at A",
        partial(picks_a, detector="twin-memory"),
    ),
    Recipe(
        "option-order: picks A when unsure, hard half at A",
        partial(picks_a, detector="option-order"),
    ),
    Recipe("combined: picks A when unsure, hard half at A", partial(picks_a, detector="combined")),
    Recipe("twin-drop: says yes when unsure, hard half mostly yes", says_yes),
    Recipe(
        "twin-drop: says yes when unsure, 70 % yes everywhere", partial(says_yes, everywhere=True)
    ),
    Recipe(
        "combined: 40 % of references' replies to originals unreadable",
        partial(unreadable, detector="combined", of="references", variant="original"),
    ),
    Recipe(
        "twin-drop: 40 % of its replies to twins unreadable",
        partial(unreadable, detector="twin-drop", of="model", variant="twin"),
    ),
    Recipe(
        "fresh-drop: harder fresh items, references near chance", partial(harder_fresh, theirs=-6.0)
    ),
    Recipe(
        "fresh-drop: harder fresh items, references at the ceiling",
        partial(harder_fresh, theirs=6.0),
    ),
    Recipe(
        "loss: harder fresh pictures, one reference sees nothing",
        partial(harder_pictures, sees=0.0),
    ),
    Recipe(
        "loss: harder fresh pictures, three families see nothing",
        partial(harder_pictures, sees=0.0, references=3, lineages=3),
    ),
    Recipe("order-neighbour: topic runs, one weaker reader", neighbouring_topics),
    Recipe(
        "order-neighbour: topic runs, three families of weaker readers",
        partial(neighbouring_topics, references=3, lineages=3),
    ),
    Recipe("order-joint: topic runs, three families of weaker readers", joint_topics),
    Recipe("twin-drop: twins differ in hardness, one reference under three names", one_reference),
    Recipe("loss: 5 of 200 images are fresh", partial(few_fresh, fresh=5)),
    Recipe("loss: 10 of 200 images are fresh", partial(few_fresh, fresh=10)),
)
CONTAMINATED_SETUPS: tuple[Recipe, ...] = (
    Recipe("twin-drop: one category of 5 % remembered, categories asked for", one_category, True),
    Recipe(
        "twin-drop: everything known, 3 % of the twins lost", partial(at_ceiling, drop=0.03), True
    ),
    Recipe(
        "twin-drop: 30 % remembered, 40 % of references' replies to twins unreadable",
        partial(unreadable, detector="twin-drop", of="references", variant="twin", known=0.3),
        True,
    ),
    Recipe(
        "twin-drop: 30 % remembered, 40 % of its replies to originals unreadable",
        partial(unreadable, detector="twin-drop", of="model", variant="original", known=0.3),
        True,
    ),
    Recipe(
        "order-joint: +10 nats a shard, references that read as well",
        partial(joint_topics, gain=0.0, weaker=0.0, memory=10.0),
        True,
    ),
    Recipe(
        "twin-drop: 10 % remembered, 9 % of its replies to twins lost, wrong ones", lost_wrong, True
    ),
    Recipe(
        "loss: 5 of 200 images are fresh, 2.7 nats", partial(few_fresh, fresh=5, nats=2.7), True
    ),
    Recipe(
        "loss: 10 of 200 images are fresh, 1.7 nats", partial(few_fresh, fresh=10, nats=1.7), True
    ),
)
