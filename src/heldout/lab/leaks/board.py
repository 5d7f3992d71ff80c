"""The result of an overlap audit for every item of a leaky corpus beside the truth; recall and precision."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from heldout import __version__
from heldout.benchmark import read_benchmark
from heldout.corpus import Corpus, open_corpus
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evidence import BY_DIGEST, COPIES, Relation
from heldout.lab.settings import LeakSettings
from heldout.lab.transforms.result import CountedRate, StudyRecord, rate
from heldout.overlap import NearSearch, TextSearch, read_matches, scan, scan_texts, untestable_items
from heldout.scenes import (
    BY_ANSWER,
    BY_QUESTION,
    FILMS,
    KINDS,
    REWORDED_ALONE,
    SCENES,
    told_apart,
    write_benchmark,
    write_corpus,
)
from heldout.store import Dropped, Run, replacing, write_json

STRANGER = "stranger"
BROKEN = "broken"
SCHEMA = pl.Schema(
    {
        "world": pl.String,
        "seed": pl.Int64,
        "corpus_id": pl.String,
        "kind": pl.String,
        "group": pl.String,
        "detail": pl.String,
        "image": pl.String,
        "benchmark_id": pl.String,
        "found_by": pl.String,
        "words": pl.String,
        "label_relation": pl.String,
        "pictured": pl.Boolean,
        # The pair with its own picture; degree and relation are empty where it was not listed.
        "method": pl.String,
        "similarity": pl.Float64,
        "degree": pl.String,
        "relation": pl.String,
        "transform": pl.String,
        "label_said": pl.String,
        # Pairs with other pictures of the benchmark: none of them is right.
        "other_pairs": pl.Int64,
        "other_graded": pl.Int64,
        "other_hard": pl.Int64,
        "other_undecided": pl.Int64,
        "other_copies": pl.Int64,
        "other_image": pl.String,
        "other_relation": pl.String,  # the one that comes nearest to a copy
        # Its words and its own item's, and with other items'.
        "untestable": pl.String,
        "text_methods": pl.String,
        "text_degree": pl.String,
        "text_relation": pl.String,
        "answer_said": pl.String,
        "other_texts": pl.Int64,
        "other_text_hard": pl.Int64,
        # Of the benchmark: its items, and how many of them their question, or it and the answer, tell apart.
        "benchmark_items": pl.Int64,
        "told_by_question": pl.Int64,
        "told_by_answer": pl.Int64,
    }
)
_GRADE = {"hard": 2, "soft": 1, "none": 0}


@dataclass
class _Said:
    """The result of the audit for one corpus item."""

    pictures: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the benchmark's picture
    labels: dict[str, str] = field(default_factory=dict)  # by item
    texts: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))


def leak_rows(run: Run, corpus: Corpus, truth: Path, *, world: str, seed: int) -> pl.DataFrame:
    """One row per item of the corpus that could be read. Broken files are dropped, and are not here."""
    items = run.frame("items").with_columns(image=pl.col("image_names").list.first())
    results = _said(items, read_matches(run), run.frame("text_matches"))
    untestable = _untestable(run, items)
    known = {row["corpus_id"]: row for row in map(json.loads, truth.read_text().splitlines())}
    columns = items.select("benchmark_id", "image", "question", "answer")
    apart = Counter(told_apart(columns.iter_rows()).values())
    of_benchmark = {
        "benchmark_items": len(items),
        "told_by_question": apart[BY_QUESTION],
        "told_by_answer": apart[BY_ANSWER],
    }
    rows = [
        {
            "world": world,
            "seed": seed,
            **of_benchmark,
            **_row(id, pictured, known.get(id), results[id], untestable),
        }
        for id, pictured in _corpus_items(corpus)
        if known.get(id, {}).get("group") != BROKEN
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(
    id: str,
    pictured: bool,
    truth: Mapping[str, Any] | None,
    results: _Said,
    untestable: Mapping[str, str],
) -> dict[str, Any]:
    planted = truth or {"kind": STRANGER, "group": STRANGER, "detail": ""}
    image, item = planted.get("image"), planted.get("benchmark_id")
    own = results.pictures.get(image or "", {})
    strange = {name: pair for name, pair in results.pictures.items() if name != image}
    others = list(strange.values())
    worst = max(strange.items(), key=lambda pair: _grade(pair[1]), default=("", {}))
    words = max(results.texts.get(item or "", []), key=_gravity, default={})
    other_words = [
        max(pairs, key=_gravity) for name, pairs in results.texts.items() if name != item
    ]
    return {
        "corpus_id": id,
        **{
            name: planted.get(name)
            for name in ("kind", "group", "detail", "image", "benchmark_id", "found_by", "words")
        },
        "label_relation": planted.get("label_relation"),
        "pictured": pictured,
        "method": str(own.get("method", "")).split(" |")[0],
        "similarity": own.get("similarity"),
        "degree": own.get("degree", ""),
        "relation": own.get("relation", ""),
        "transform": own.get("transform", ""),
        "label_said": results.labels.get(item or "", ""),
        "other_pairs": len(others),
        "other_graded": sum(pair["degree"] != "none" for pair in others),
        "other_hard": sum(pair["degree"] == "hard" for pair in others),
        "other_undecided": sum(pair["relation"] == Relation.UNDECIDED for pair in others),
        "other_copies": sum(pair["relation"] in COPIES for pair in others),
        "other_image": worst[0],
        "other_relation": worst[1].get("relation", ""),
        "untestable": untestable.get(item or "", ""),
        "text_methods": "+".join(sorted({p["method"] for p in results.texts.get(item or "", [])})),
        "text_degree": words.get("degree", ""),
        "text_relation": words.get("relation", ""),
        "answer_said": words.get("answer_relation", ""),
        "other_texts": sum(pair["degree"] != "none" for pair in other_words),
        "other_text_hard": sum(pair["degree"] == "hard" for pair in other_words),
    }


def _said(
    items: pl.DataFrame, matches: pl.DataFrame, texts: pl.DataFrame
) -> defaultdict[str, _Said]:
    by_item: defaultdict[str, _Said] = defaultdict(_Said)
    images = dict(items.select("benchmark_id", "image").iter_rows())
    for row in matches.drop("evidence").iter_rows(named=True):
        result = by_item[row["corpus_id"]]
        result.labels[row["benchmark_id"]] = row["label_relation"]
        before = result.pictures.get(images[row["benchmark_id"]])
        if before is None or _grade(row) > _grade(before):
            result.pictures[images[row["benchmark_id"]]] = row
    words = texts.filter(
        (pl.col("method") != "provenance") & (pl.col("relation") != "same options")
    )
    for row in words.drop("evidence").iter_rows(named=True):
        by_item[row["corpus_id"]].texts[row["benchmark_id"]].append(row)
    return by_item


def _untestable(run: Run, items: pl.DataFrame) -> dict[str, str]:
    """Items that no method could find by their words, each with the reason."""
    (scanned,) = run.manifest()["text"].values()
    methods = [method for method in scanned["methods"] if method != "provenance"]
    answered = scanned["counts"].get("text_answers", 0) > 0
    reasons = untestable_items(items, run.frame("text_queries"), methods, answered)
    everywhere = set.intersection(*(set(record) for record in reasons.values()))
    return {item: reasons[methods[0]][item] for item in everywhere}


def _corpus_items(corpus: Corpus) -> Iterator[tuple[str, bool]]:
    for shard in corpus.shards():
        read: Iterable[Any] = corpus.read(shard)
        for item in read:
            if not isinstance(item, Dropped):
                yield item.id, item.image is not None


def _grade(row: Mapping[str, Any]) -> int:
    """How close to a copy the match is: a verified relation ranks above a degree of similarity."""
    rank = 20 if row["relation"] in COPIES else 10 if row["relation"] == Relation.UNDECIDED else 0
    return rank + _GRADE[row["degree"]]


def _gravity(row: Mapping[str, Any]) -> tuple[int, bool, float]:
    return _GRADE[row["degree"]], row["relation"] == "same item", row["similarity"]


# Render, plant, audit, compare with the truth: seed by seed, in both worlds; what is finished is kept.


WORLDS = {world.name: world for world in (SCENES, FILMS)}
PLAN, ROWS = "plan.json", "rows.parquet"
BENCHMARK, CORPUS, TRUTH, AUDIT = "benchmark", "corpus", "corpus.truth.jsonl", "run"


def run_leaks(
    out: Path,
    settings: LeakSettings,
    engine: Engine,
    tell: Callable[[str], None],
    *,
    quiet: bool = False,
) -> pl.DataFrame:
    """The rows of every world and seed; ``out/WORLD-SEED`` holds what was rendered and said of it."""
    _same_settings(out, settings)
    worlds, seeds = settings.worlds, settings.seeds
    unknown = [name for name in worlds if name not in WORLDS]
    if unknown:
        raise InputError(
            f"worlds {unknown[0]}: there is no such world; there are {', '.join(WORLDS)}"
        )
    frames = []
    for seed in range(seeds):
        for name in worlds:
            folder = out / f"{name}-{seed}"
            rows = folder / ROWS
            # Rows that lack a column are of an earlier version; their audit is still there.
            if not rows.exists() or pl.read_parquet_schema(rows) != SCHEMA:
                measured_rows = _measure(folder, name, seed, settings, engine, quiet)
                with replacing(rows) as temporary:
                    measured_rows.write_parquet(temporary, compression="zstd")
            frames.append(pl.read_parquet(rows))
            tell(f"{name}, seed {seed}: {len(frames)} of {seeds * len(worlds)}")
    return pl.concat(frames)


def _measure(
    folder: Path, name: str, seed: int, settings: LeakSettings, engine: Engine, quiet: bool
) -> pl.DataFrame:
    world, truth = WORLDS[name], folder / TRUTH
    if not truth.exists():  # written last: without it the rendering was interrupted
        for part in (BENCHMARK, CORPUS):
            shutil.rmtree(folder / part, ignore_errors=True)
        written = write_benchmark(
            folder / BENCHMARK, images=benchmark_images(settings), seed=seed, world=world
        )
        write_corpus(
            folder / CORPUS,
            written,
            items=settings.items,
            seed=seed,
            world=world,
            each=settings.each,
            reworded=settings.reworded,
        )
    benchmark = read_benchmark(folder / BENCHMARK, name=name)
    corpus = open_corpus(folder / CORPUS, name=CORPUS)
    run = Run.create(folder / AUDIT, seed=seed)
    near = NearSearch(settings.encoder, settings.nearest)
    with run.writing():
        scanned = scan(benchmark, [corpus], run, engine, near=near, quiet=quiet)
        scan_texts(
            benchmark,
            [corpus],
            run,
            engine,
            TextSearch.installed(settings.text_encoder),
            scanned=scanned,
            quiet=quiet,
        )
    return leak_rows(run, corpus, truth, world=name, seed=seed)


def _kinds() -> list[str]:
    return list(dict.fromkeys(kind.name for kind in (*KINDS, *REWORDED_ALONE.values())))


def benchmark_images(settings: LeakSettings) -> int:
    """One image for every leak of every kind."""
    return settings.each * len(KINDS)


def _same_settings(out: Path, settings: LeakSettings) -> None:
    """Rows of other settings or versions are not mixed with these; more seeds and worlds may come."""
    plan = settings.model_dump(mode="json", exclude={"seeds", "worlds"})
    record = {**plan, "heldout": __version__, "kinds": _kinds()}
    path = out / PLAN
    if path.exists() and json.loads(path.read_text()) != record:
        raise InputError(
            f"{out} holds results of other settings or of another version: choose another folder, or "
            f"remove it"
        )
    if not path.exists():
        write_json(path, record)


# Recall per kind of planted leak and precision per degree, each with its counts and interval.


SCHEMA_VERSION = 1
PICTURES, WORDS = "pictures", "words"
COPY = "verified copy"
_GRADED = ("soft", "hard")
# Results for a pair, from the weakest to the strongest: with its own picture, and with others.
PICTURE_LEVELS: dict[str, tuple[pl.Expr, str]] = {
    "listed": (pl.col("relation") != "", "other_pairs"),
    "soft or hard": (pl.col("degree").is_in(_GRADED), "other_graded"),
    "hard": (pl.col("degree") == "hard", "other_hard"),
    "left to people": (pl.col("relation") == Relation.UNDECIDED, "other_undecided"),
    COPY: (pl.col("relation").is_in(COPIES), "other_copies"),
}
# Equal bytes and pixels are right by themselves: what registration alone calls a copy is what can be wrong.
REGISTERED = f"{COPY}, by registration alone"
_REGISTERED = PICTURE_LEVELS[COPY][0] & ~pl.col("method").is_in(BY_DIGEST)
WORD_LEVELS: dict[str, tuple[pl.Expr, str]] = {
    "counts (soft or hard)": (pl.col("text_degree").is_in(_GRADED), "other_texts"),
    "hard": (pl.col("text_degree") == "hard", "other_text_hard"),
}


class PictureRecall(StudyRecord):
    world: str
    kind: str
    levels: dict[str, CountedRate]
    label: (
        CountedRate | None
    )  # the relation of the answers is the planted one; None without an answer


class WordRecall(StudyRecord):
    world: str
    kind: str
    testable: CountedRate  # items whose words some method could find
    listed: CountedRate
    counts: CountedRate
    of_testable: CountedRate  # counted, of those that could be
    claimed: CountedRate  # question and answer word for word: the claim survives
    answer: CountedRate | None  # of those listed: the relation of the answers is the planted one


class Alarms(StudyRecord):
    """False alarms: corpus items that are no copy and hold no words of the benchmark."""

    world: str
    kind: str
    pictures: dict[str, CountedRate]
    words: dict[str, CountedRate]


class LeakPrecision(StudyRecord):
    world: str
    of: str  # pictures, words
    level: str
    # pairs that were planted, of the pairs said so; items of the corpus are the units
    right: CountedRate


class LeakBoard(StudyRecord):
    schema_version: int = SCHEMA_VERSION
    seeds: int
    pictures: list[PictureRecall]
    words: list[WordRecall]
    alarms: list[Alarms]
    precision: list[LeakPrecision]


def leak_board(rows: pl.DataFrame) -> LeakBoard:
    names = _kinds()
    worlds = rows["world"].unique(maintain_order=True).to_list()
    pictures, words, alarms, precision = [], [], [], []
    for world in worlds:
        here = rows.filter(pl.col("world") == world)
        for kind in (*names, STRANGER):
            of_kind = here.filter(pl.col("kind") == kind)
            if of_kind.is_empty():
                continue
            if of_kind["found_by"][0] is not None:
                pictures.append(_pictures(world, kind, of_kind))
            if of_kind["words"][0] is not None:
                words.append(_words(world, kind, of_kind))
            if of_kind["found_by"][0] is None and of_kind["words"][0] is None:
                alarms.append(_alarms(world, kind, of_kind))
        precision += _precision(world, here)
    return LeakBoard(
        seeds=rows["seed"].n_unique(),
        pictures=pictures,
        words=words,
        alarms=alarms,
        precision=precision,
    )


def _pictures(world: str, kind: str, rows: pl.DataFrame) -> PictureRecall:
    levels = {name: _share(rows, own) for name, (own, _) in PICTURE_LEVELS.items()}
    label_right = pl.col("label_said") == pl.col("label_relation")
    answered = rows["label_relation"][0] is not None
    label = _share(rows, label_right) if answered else None
    return PictureRecall(world=world, kind=kind, levels=levels, label=label)


def _words(world: str, kind: str, rows: pl.DataFrame) -> WordRecall:
    listed = pl.col("text_degree") != ""
    counts, testable = pl.col("text_degree").is_in(_GRADED), pl.col("untestable") == ""
    claimed = (pl.col("text_degree") == "hard") & (pl.col("text_relation") == "same item")
    return WordRecall(
        world=world,
        kind=kind,
        testable=_share(rows, testable),
        listed=_share(rows, listed),
        counts=_share(rows, counts),
        of_testable=_share(rows.filter(testable), counts),
        claimed=_share(rows, claimed),
        answer=_share(rows.filter(listed), pl.col("answer_said") == pl.col("label_relation")),
    )


def _alarms(world: str, kind: str, rows: pl.DataFrame) -> Alarms:
    """Said of the pair it was made from, or of any other."""
    pictured = rows.filter("pictured")
    return Alarms(
        world=world,
        kind=kind,
        pictures={
            name: _share(pictured, own | (pl.col(others) > 0))
            for name, (own, others) in PICTURE_LEVELS.items()
        },
        words={
            name: _share(rows, own | (pl.col(others) > 0))
            for name, (own, others) in WORD_LEVELS.items()
        },
    )


def _precision(world: str, here: pl.DataFrame) -> list[LeakPrecision]:
    precisions = []
    for of, levels, planted in (
        (
            PICTURES,
            {**PICTURE_LEVELS, REGISTERED: (_REGISTERED, "other_copies")},
            pl.col("found_by").is_not_null(),
        ),
        (WORDS, WORD_LEVELS, pl.col("words").is_not_null()),
    ):
        for level, (own, others) in levels.items():
            counted = here.select(
                hits=(own & planted).cast(pl.Int64),
                pairs=own.cast(pl.Int64) + pl.col(others),
            )
            right = rate(counted["hits"].to_numpy(), counted["pairs"].to_numpy(), _units(here))
            precisions.append(LeakPrecision(world=world, of=of, level=level, right=right))
    return precisions


def _share(frame: pl.DataFrame, condition: pl.Expr) -> CountedRate:
    """Every unit is one item of a corpus, made from a picture of its own: exact intervals."""
    hits = frame.select(condition.fill_null(False).cast(pl.Int64).alias("hit"))["hit"].to_numpy()
    return rate(hits, [1] * len(hits), _units(frame))


def _units(frame: pl.DataFrame) -> Sequence[str]:
    message = pl.format("{}/{}/{}", "world", "seed", "corpus_id")
    return frame.select(message.alias("unit"))["unit"].to_list()
