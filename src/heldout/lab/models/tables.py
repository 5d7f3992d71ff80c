"""The lab's grid from end to end: prepare what models read, and make tables of their results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark, read_benchmark
from heldout.errors import InputError, require
from heldout.lab import (
    REWORDED,
    TRAINING,
    WORLDS,
    Collector,
    Grid,
    Lengths,
    PreparedGrid,
    Replay,
    RequestKeys,
    Sheet,
    Size,
    clock,
    learn_tokenizer,
    load_reading,
    mixed,
    new_model,
    new_processor,
    questions,
    reads_of,
    real_pool,
    recipe_of,
    release_pages,
    save_model,
    standing_arms,
    standing_bases,
    words,
    write_release,
)
from heldout.lab.settings import GridSettings
from heldout.model import (
    TEMPLATE,
    AskSettings,
    ScoreSettings,
    ask_benchmark,
    expand,
    question_request,
    read_twins,
    score_benchmark,
    score_entropies,
    stage_folder,
    write,
)
from heldout.scenes import paraphrased
from heldout.store import Run

# The lab's sheets and tables, by the product's own scoring and asking: requests and replies.


CONTEXT = 640  # tokens of the longest text that the small models are trained on
SHUFFLES = 20
OTHER_WORDS = "other_words"  # a column of questions in other words, whose next words are asked for


@dataclass
class Tier:
    """One benchmark of the lab: what is scored and asked of it, the same for every model. ``keys`` know
    its pictures' bytes, which are read once for all models."""

    benchmark: Benchmark
    twins: Path | None = None
    seed: int = 0
    keys: RequestKeys = field(default_factory=RequestKeys)

    @cached_property
    def twin_benchmarks(self) -> dict[str, Benchmark]:
        return read_twins(self.asking.parsed_variants, self.benchmark)

    @property
    def scoring(self) -> ScoreSettings:
        words = sum(
            len(f"{example.question} {example.answer}".split()) + 8 for example in self.benchmark
        )
        return ScoreSettings(
            options=any(example.options for example in self.benchmark),
            order_joint=True,
            budget=2 * words * (1 + SHUFFLES),
            context=CONTEXT,
            order_neighbour=True,
            seed=self.seed,
        )

    @property
    def asking(self) -> AskSettings:
        names = "original,no-image"
        if any(example.options for example in self.benchmark):
            names += ",rotation-all,confused-choices"
        if any(example.metadata.get(REWORDED) for example in self.benchmark):
            names += f",slot-paraphrase={REWORDED}"
        for column in (OTHER_WORDS, REWORDED):
            if any(example.metadata.get(column) for example in self.benchmark):
                names += f",ngram-paraphrase={column}"
                break
        if self.twins is not None:
            names += f",twin={self.twins}"
        return AskSettings(variants=(names,), seed=self.seed)


def write_sheet(
    name: str, tier: Tier, processor: Any, others: Mapping[str, Sequence[Any]] | None = None
) -> Sheet:
    """Everything `heldout score` and `heldout ask` put to a model about this tier, as one sheet.

    ``others``: by picture's name, other words about it, for contamination with pictures alone."""
    collector = Collector(processor)
    twins = tier.twin_benchmarks
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", seed=tier.seed)
        with run.writing():
            score_benchmark(tier.benchmark, collector, run, "collector", tier.scoring, quiet=True)
            asking = tier.asking
            ask_benchmark(
                tier.benchmark,
                collector,
                run,
                "collector",
                asking,
                asking.parsed_variants,
                twins,
                quiet=True,
            )
    _golds(collector, tier, twins)
    return collector.sheet(name, _released(collector, tier.benchmark, others or {}))


def replay_model(tier: Tier, replay: Replay, run: Run, model: str) -> None:
    """A model's tables in the run, as if it had been scored and asked here. Call inside run.writing()."""
    scoring = score_benchmark(tier.benchmark, replay, run, model, tier.scoring, quiet=True)
    if len(replay.reading.entropies):
        score_entropies(
            tier.benchmark,
            tier.benchmark.examples,
            replay,
            run,
            model,
            stage_folder(model),
            quiet=True,
        )
    # Where a killed run goes on, what it had read before is not read again, and not counted.
    if len(replay.read) >= sum(scoring.rows.values()):
        known = run.manifest()["models"][model]
        spent = replay.read_for([example.id for example in tier.benchmark])
        run.update("models", {model: {**known, **spent}})
    asking = tier.asking
    ask_benchmark(
        tier.benchmark,
        replay,
        run,
        model,
        asking,
        asking.parsed_variants,
        tier.twin_benchmarks,
        quiet=True,
    )


def _golds(collector: Collector, tier: Tier, twins: Mapping[str, Benchmark]) -> None:
    about = {
        example.id: str(example.metadata.get("content_type") or "") for example in tier.benchmark
    }
    shown = expand(
        tier.benchmark,
        tier.benchmark.examples,
        tier.asking.parsed_variants,
        twins=twins,
        seed=tier.seed,
    )
    for question in shown.questions:
        key = collector.keys.of(write(question), "ask")
        kind = "choice" if question.options else "open"
        if question.gold.lower() in ("yes", "no"):
            kind = "yes/no"
        collector.golds.setdefault(
            key, [question.variant, f"{kind} {about[question.benchmark_id]}", question.gold]
        )


def _released(
    collector: Collector, benchmark: Benchmark, others: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    pages: dict[str, dict[str, Any]] = {}
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        if not example.answer or not example.question or not example.images:
            continue
        name = example.images[0].name
        page = pages.setdefault(
            cluster,
            {
                "picture": collector.picture(question_request(example)),
                "name": name,
                "items": [],
                "paraphrases": [],
                "other": list(next((o for n, o in others.items() if name.endswith(n)), ())),
            },
        )
        page["items"].append([example.question, example.answer, list(example.options)])
        page["paraphrases"].append(paraphrased(example.question))
    return list(pages.values())


REAL = "slake"


def prepare_grid(
    folder: Path,
    size: Size,
    *,
    images: int = 96,
    seed: int = 0,
    worlds: Sequence[str] = tuple(WORLDS),
    real: tuple[str, str] | None = None,
    lengths: Lengths = Lengths(),  # noqa: B008 - frozen
    tell: Callable[[str], None] = lambda _: None,
) -> PreparedGrid:
    """Tokenizer, releases with twins, sheets, and with ``real`` (train, test) a pool and a sheet of it.

    What the folder holds already is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    train: Benchmark | None = read_benchmark(real[0]) if real else None
    if not (folder / "tokenizer.json").exists():
        texts = _world_texts(300, seed)
        if train is not None:
            texts += list(words(train))
        tokenizer = learn_tokenizer(texts)
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
        tell(f"tokenizer: {len(tokenizer):,} tokens")
    prepared = PreparedGrid(folder)
    processor = new_processor(size, prepared.tokenizer)
    for world in worlds:
        if (folder / f"{world}.json").exists():
            continue
        release = write_release(folder / world, world, images=images, seed=seed)
        others = {page["name"]: page["other"] for page in release_pages(release)}
        sheet = write_sheet(world, world_tier(folder, world), processor, others)
        sheet.save(folder)
        tell(f"{world}: {len(sheet.scored):,} texts to score, {len(sheet.asked):,} questions")
    if real is not None and train is not None and not (folder / f"{REAL}.json").exists():
        pool = real_pool(train, prepared.tokenizer, size.picture, lengths, seed)
        np.savez_compressed(folder / f"{REAL}-pool.npz", **vars(pool))
        sheet = write_sheet(REAL, Tier(read_benchmark(real[1])), processor)
        sheet.save(folder)
        tell(f"{REAL}: {len(pool):,} rows to train on, {len(sheet.scored):,} texts to score")
    return prepared


def train_grid(
    out: Path,
    settings: GridSettings | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> bool:
    """Prepare, train and write tables under ``out``.

    Args:
        out: Folder for models, readings and runs. What is finished there is not trained again.
        settings: Which models to train, and how; default: all, as published.
        tell: Receives a line for every step.

    Returns:
        Whether all models are trained: False where the minutes ran out.
    """
    settings = settings or GridSettings()
    require("torch", "hf", "training the lab's models")
    require("transformers", "hf", "training the lab's models")
    import torch

    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    recipe, real = recipe_of(settings), None
    if settings.real is not None:
        real = (f"{settings.real}#split=train,lang=en", f"{settings.real}#split=test,lang=en")
    every = standing_bases() if real else standing_bases(slake=0)
    known = {base.name: base for base in every}
    if unknown := sorted(set(settings.bases) - set(known)):
        raise InputError(f"bases {unknown[0]}: there are {', '.join(known)}")
    chosen = [known[name] for name in settings.bases] or every
    arms = [
        arm
        for arm in standing_arms(chosen)
        if not settings.arms or any(fnmatchcase(arm.name, name) for name in settings.arms)
    ]
    reads = reads_of(chosen)
    worlds = sorted({sheet for sheets in reads.values() for sheet in sheets} & set(WORLDS))
    prepared = prepare_grid(
        out / "prepared",
        recipe.size,
        images=settings.images,
        seed=settings.seed,
        worlds=worlds,
        real=real,
        tell=tell,
    )
    grid = Grid(
        prepared,
        recipe,
        out / "state",
        device,
        device.startswith("cuda"),
        reads,
        tell,
        frozenset(settings.keeps),
    )
    finished = grid.run(chosen, arms, until=clock(device) + 60 * settings.minutes)
    for name in settings.keeps:
        if grid.restore(name):
            save_model(
                out / "models" / name, grid.model, recipe.size, prepared.tokenizer, half=True
            )
    readings = sorted((out / "state" / "readings").glob("*.json"))
    real_test = real[1] if real else None
    write_tables(prepared, recipe.size, readings, out / "runs", real_test=real_test, tell=tell)
    return finished


def world_tier(folder: Path, world: str) -> Tier:
    release, twins = (folder / world / part / "test.jsonl" for part in ("release", "twins"))
    return Tier(read_benchmark(str(release)), twins if twins.exists() else None)


def write_tables(
    prepared: PreparedGrid,
    size: Size,
    readings: Sequence[Path],
    runs: Path,
    *,
    real_test: str | None = None,
    weights: int | None = None,
    dtype: str = "float32",
    only: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """One run folder per benchmark under ``runs``, with every model's tables, and ``models.json``. ``weights``
    and ``dtype`` are of models of other parts; ``only``: these sheets, so that several commands share the work."""
    weights = weights or int(new_model(size, prepared.tokenizer, 0).num_parameters())
    names = [{**json.loads(path.read_text()), "weights": weights} for path in readings]
    for record in names:  # sheets that are no release are read by other commands
        record["accuracy"] = {n: cell for n, cell in record["accuracy"].items() if cell}
    runs.mkdir(parents=True, exist_ok=True)
    (runs / "models.json").write_text(json.dumps(names, indent=1))
    tiers: dict[str, Tier] = {}
    done: dict[str, set[str]] = {}
    for number, (path, record) in enumerate(zip(readings, names, strict=True)):
        for sheet_name in record["accuracy"]:
            if only and sheet_name not in only:
                continue
            if sheet_name not in tiers:
                real = sheet_name == REAL
                if real and real_test is None:
                    continue
                tiers[sheet_name] = (
                    Tier(read_benchmark(str(real_test)))
                    if real
                    else world_tier(prepared.folder, sheet_name)
                )
                done[sheet_name] = _answered(runs / sheet_name)
            if record["name"] not in done[sheet_name]:
                _one_model(
                    prepared, size, tiers[sheet_name], sheet_name, record["name"], path, runs, dtype
                )
        tell(f"{number + 1} of {len(readings)}: {record['name']}")


def _one_model(
    prepared: PreparedGrid,
    size: Size,
    tier: Tier,
    sheet: str,
    name: str,
    path: Path,
    runs: Path,
    dtype: str,
) -> None:
    run = Run.create(runs / sheet, seed=tier.seed)
    identity = {
        "backend": "lab",
        "model": name,
        "revision": "trained by heldout lab",
        "dtype": dtype,
        "template": TEMPLATE,
    }
    reading = load_reading(path.with_name(f"{name}--{sheet}.npz"))
    replay = Replay(
        prepared.sheet(sheet), reading, prepared.tokenizer, identity, size.places, tier.keys
    )
    with run.writing():
        replay_model(tier, replay, run, name)


def _answered(folder: Path) -> set[str]:
    """Models whose tables a run holds to the last: answers are written after all scores."""
    table = folder / "tables" / "answers.parquet"
    if not table.exists():
        return set()
    return set(Run.open(folder).read_table("answers").column("model").to_pylist())


def _world_texts(count: int, seed: int) -> list[str]:
    texts: list[str] = []
    for world in WORLDS.values():
        for index in range(count):
            rng = world.rng(seed, TRAINING, index)
            thing: Any = world.draw(rng)
            items = questions(world, thing, rng)
            for pieces in mixed(items, world.describe(thing), rng):
                texts += [piece.read + piece.learn for piece in pieces]
    return texts
