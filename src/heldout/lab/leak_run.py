"""Render, plant, audit, compare with the truth: seed by seed, in both worlds; what is finished is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from heldout import __version__
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.lab.leak_rows import SCHEMA, leak_rows
from heldout.overlap import NearSearch, scan
from heldout.overlap.text import TextSearch
from heldout.overlap.texts import scan_texts
from heldout.scenes import FILMS, KINDS, SCENES, write_benchmark, write_corpus
from heldout.store import Run, write_json
from heldout.store.lock import replacing

WORLDS = {world.name: world for world in (SCENES, FILMS)}
PLAN, ROWS = "plan.json", "rows.parquet"
BENCHMARK, CORPUS, TRUTH, AUDIT = "benchmark", "corpus", "corpus.truth.jsonl", "run"


@dataclass(frozen=True)
class LeakPlan:
    """``each``: how many of every kind a corpus holds. A benchmark has one picture for each of them."""

    each: int = 2
    items: int = 120
    encoder: str = "pixels"
    nearest: int = 5
    text_encoder: str | None = None

    @property
    def images(self) -> int:
        return self.each * len(KINDS)


def run_leaks(
    out: Path,
    plan: LeakPlan,
    worlds: list[str],
    seeds: int,
    engine: Engine,
    tell: Callable[[str], None],
    *,
    quiet: bool = False,
) -> pl.DataFrame:
    """The rows of every world and seed; ``out/WORLD-SEED`` holds what was rendered and said of it."""
    _same_plan(out, plan)
    unknown = [name for name in worlds if name not in WORLDS]
    if unknown:
        raise InputError(f"there is no world '{unknown[0]}': {', '.join(WORLDS)}")
    frames = []
    for seed in range(seeds):
        for name in worlds:
            folder = out / f"{name}-{seed}"
            rows = folder / ROWS
            # Rows that lack a column are of an earlier version; the audit they tell of is still there.
            if not rows.exists() or pl.read_parquet_schema(rows) != SCHEMA:
                made = _measure(folder, name, seed, plan, engine, quiet)
                with replacing(rows) as temporary:
                    made.write_parquet(temporary, compression="zstd")
            frames.append(pl.read_parquet(rows))
            tell(f"{name}, seed {seed}: {len(frames)} of {seeds * len(worlds)}")
    return pl.concat(frames)


def _measure(
    folder: Path, name: str, seed: int, plan: LeakPlan, engine: Engine, quiet: bool
) -> pl.DataFrame:
    world, truth = WORLDS[name], folder / TRUTH
    if not truth.exists():  # written last: without it a render was killed half way
        for part in (BENCHMARK, CORPUS):
            shutil.rmtree(folder / part, ignore_errors=True)
        written = write_benchmark(folder / BENCHMARK, images=plan.images, seed=seed, world=world)
        write_corpus(
            folder / CORPUS, written, items=plan.items, seed=seed, world=world, each=plan.each
        )
    benchmark = read_benchmark(folder / BENCHMARK, name=name)
    corpus = open_corpus(folder / CORPUS, name=CORPUS)
    run = Run.create(folder / AUDIT, seed=seed)
    near = NearSearch(plan.encoder, plan.nearest)
    with run.writing():
        scan(benchmark, [corpus], run, engine, near=near, quiet=quiet)
        scan_texts(
            benchmark, [corpus], run, engine, TextSearch(encoder=plan.text_encoder), quiet=quiet
        )
    return leak_rows(run, corpus, truth, world=name, seed=seed)


def _same_plan(out: Path, plan: LeakPlan) -> None:
    """Rows of another plan or version are not mixed with these; more seeds and worlds may come."""
    told = {**asdict(plan), "heldout": __version__, "kinds": [kind.name for kind in KINDS]}
    path = out / PLAN
    if path.exists() and json.loads(path.read_text()) != told:
        raise InputError(
            f"{out} holds results of other settings or of another version: give another --out, or "
            f"remove it"
        )
    if not path.exists():
        write_json(path, told)
