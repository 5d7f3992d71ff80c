"""The lab's grid from end to end: prepare what models read, and make tables of what they said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from heldout.audit.replaying import Tier, replay_model, write_sheet
from heldout.benchmark import Benchmark, read_benchmark
from heldout.errors import InputError, require
from heldout.lab.arms import standing_arms, standing_bases
from heldout.lab.grid import Grid, Prepared, Recipe, load_reading, reads_of
from heldout.lab.pool import Lengths, mixed, questions
from heldout.lab.releases import real_pool, told, words, write_release
from heldout.lab.replay import Replay
from heldout.lab.sheet import learn_tokenizer
from heldout.lab.training import clock
from heldout.lab.vlm import Size, new_model, new_processor, save_model
from heldout.lab.worlds import TRAINING, WORLDS
from heldout.model.prompt import TEMPLATE
from heldout.store import Run

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
) -> Prepared:
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
    prepared = Prepared(folder)
    processor = new_processor(size, prepared.tokenizer)
    for world in worlds:
        if (folder / f"{world}.json").exists():
            continue
        release = write_release(folder / world, world, images=images, seed=seed)
        others = {page["name"]: page["other"] for page in told(release)}
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
    recipe: Recipe,
    *,
    images: int,
    real: tuple[str, str] | None = None,
    bases: Sequence[str] = (),
    arms: Sequence[str] = (),
    keeps: Sequence[str] = (),
    device: str = "auto",
    minutes: float = 60.0,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> bool:
    """Prepare, train and write tables under ``out``; False where the minutes ran out: give it again.

    ``bases`` and ``keeps`` by name, ``arms`` by name or pattern; kept models become checkpoints.
    """
    require("torch", "hf", "training the lab's models")
    require("transformers", "hf", "training the lab's models")
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    every = standing_bases() if real else standing_bases(slake=0)
    known = {base.name: base for base in every}
    if unknown := sorted(set(bases) - set(known)):
        raise InputError(f"--base {unknown[0]}: there are {', '.join(known)}")
    chosen = [known[name] for name in bases] or every
    mine = [
        arm
        for arm in standing_arms(chosen)
        if not arms or any(fnmatchcase(arm.name, one) for one in arms)
    ]
    reads = reads_of(chosen)
    worlds = sorted({sheet for sheets in reads.values() for sheet in sheets} & set(WORLDS))
    prepared = prepare_grid(
        out / "prepared", recipe.size, images=images, seed=seed, worlds=worlds, real=real, tell=tell
    )
    grid = Grid(
        prepared, recipe, out / "state", device, device.startswith("cuda"), reads, tell,
        frozenset(keeps),
    )  # fmt: skip
    finished = grid.run(chosen, mine, until=clock(device) + 60 * minutes)
    for name in keeps:
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
    return Tier(read_benchmark(str(release)), twins)


def write_tables(
    prepared: Prepared,
    size: Size,
    readings: Sequence[Path],
    runs: Path,
    *,
    real_test: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """One run folder per benchmark under ``runs``, with every model's tables, and ``models.json``."""
    weights = int(new_model(size, prepared.tokenizer, 0).num_parameters())
    names = [{**json.loads(path.read_text()), "weights": weights} for path in readings]
    runs.mkdir(parents=True, exist_ok=True)
    (runs / "models.json").write_text(json.dumps(names, indent=1))
    tiers: dict[str, Tier] = {}
    done: dict[str, set[str]] = {}
    for number, (path, one) in enumerate(zip(readings, names, strict=True)):
        for sheet_name in one["accuracy"]:
            if sheet_name not in tiers:
                real = sheet_name == REAL
                if real and real_test is None:
                    continue
                tiers[sheet_name] = (
                    Tier(read_benchmark(str(real_test))) if real
                    else world_tier(prepared.folder, sheet_name)
                )  # fmt: skip
                done[sheet_name] = _answered(runs / sheet_name)
            if one["name"] not in done[sheet_name]:
                _one_model(prepared, size, tiers[sheet_name], sheet_name, one["name"], path, runs)
        tell(f"{number + 1} of {len(readings)}: {one['name']}")


def _one_model(
    prepared: Prepared, size: Size, tier: Tier, sheet: str, name: str, path: Path, runs: Path
) -> None:
    run = Run.create(runs / sheet, seed=tier.seed)
    identity = {
        "backend": "lab", "model": name, "revision": "trained by heldout lab", "dtype": "float32",
        "template": TEMPLATE,
    }  # fmt: skip
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
