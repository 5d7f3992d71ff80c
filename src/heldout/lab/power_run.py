"""Every detector over the whole grid, cell by cell; what is finished is kept and not computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from heldout.detect import Detector, DetectSettings, ScoreTables, detectors
from heldout.errors import InputError
from heldout.lab.power_cells import Cells, Row
from heldout.lab.power_models import (
    RAW,
    WAYS,
    LabGrid,
    fewer_shuffles,
    recorded_tokens,
)
from heldout.store import Run, replacing, write_json

EQUAL_COST = "order-joint at equal cost"
SCHEMA = pl.Schema(
    {
        "benchmark": pl.String,
        "detector": pl.String,
        "way": pl.String,
        "model": pl.String,
        "base": pl.String,
        "arm": pl.String,
        "role": pl.String,
        "dose": pl.Int64,
        "split": pl.String,
        "references": pl.Int64,
        "effect": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "p": pl.Float64,
        "direction": pl.String,
        "n": pl.Int64,
        "clusters": pl.Int64,
        "item_auc": pl.Float64,
        "blind_auc": pl.Float64,
        "tokens": pl.Int64,
        "reason": pl.String,
    }
)


@dataclass(frozen=True)
class PowerPlan:
    permutations: int = 999
    seed: int = 0
    names: tuple[str, ...] = ()  # detectors; all if none is named


def run_power(
    grid: LabGrid, out: Path, plan: PowerPlan, tell: Callable[[str], None]
) -> pl.DataFrame:
    """All cells of all benchmarks; ``out/cells`` holds what is finished."""
    chosen = _chosen(plan.names)
    cells = out / "cells"
    frames: list[pl.DataFrame] = []
    for benchmark in grid.benchmarks:
        run = Run.open(grid.folder / benchmark)
        _same_inputs(cells / benchmark, run, plan)
        tables = ScoreTables.load(run)
        unknown = sorted({*tables.models, *tables.answering} - set(grid.models))
        if unknown:
            raise InputError(
                f"{run.path} has a model {unknown[0]} that models.json does not know: its truth is "
                f"needed; train the grid and write its tables together"
            )
        settings = DetectSettings(seed=plan.seed, permutations=plan.permutations)
        for detector in chosen:
            given = tables
            if detector.name == EQUAL_COST:
                given = fewer_shuffles(tables, affordable_shuffles(tables, run.manifest()))
            work = Cells(grid, benchmark, given, settings)
            for way in WAYS:
                path = cells / benchmark / f"{_plain(detector.name)}--{_plain(way)}.parquet"
                frame = _finished(path, work, detector, way)
                frames.append(_with_tokens(frame, work, detector, run.manifest()))
            tell(f"{benchmark}: {detector.name}")
    return pl.concat(frames)


def affordable_shuffles(tables: ScoreTables, manifest: Mapping[str, Any]) -> int:
    """Shuffles per shard that order-joint may read for what order-neighbour reads."""
    model = next(iter(tables.answering), "")
    recorded = recorded_tokens(manifest, model)
    joint, neighbour = (
        detectors()[name].forward_tokens(tables, model, recorded)
        for name in ("order-joint", "order-neighbour")
    )
    if not joint or not neighbour or tables.order_joint is None:
        return 1
    rows = tables.order_joint.filter(pl.col("model") == model)
    once = joint / (len(rows) / rows["shard"].n_unique())
    return max(1, int(neighbour / once) - 1)


def _chosen(names: Sequence[str]) -> list[Detector]:
    known = detectors()
    if "order-joint" in known:
        known[EQUAL_COST] = replace(
            known["order-joint"], name=EQUAL_COST, summary="order-joint with fewer shuffles"
        )
    for name in names:
        if name not in known:
            raise InputError(f"there is no detector '{name}'; there are {', '.join(known)}")
    return [known[name] for name in names or known]


def _finished(path: Path, work: Cells, detector: Detector, way: str) -> pl.DataFrame:
    kept = pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SCHEMA)
    done = frozenset(zip(kept["model"], kept["split"], strict=True))
    fresh = _frame(work.rows(detector, way, done))
    if fresh.is_empty() and path.exists():
        return kept
    whole = pl.concat([kept, fresh])
    with replacing(path) as temporary:
        whole.write_parquet(temporary, compression="zstd")
    return whole


def _frame(rows: Iterable[Row]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA)


def _with_tokens(
    frame: pl.DataFrame, work: Cells, detector: Detector, manifest: Mapping[str, Any]
) -> pl.DataFrame:
    """Forward tokens of one model; with references everybody reads as much."""
    if frame.is_empty() or detector.of in ("models", "benchmark"):
        return frame
    tested = frame.filter(pl.col("effect").is_not_null())
    if tested.is_empty():
        return frame
    model = str(tested["model"][0])
    once = detector.forward_tokens(work.tables, model, recorded_tokens(manifest, model))
    spent = pl.lit(once, pl.Int64) * (1 + pl.col("references"))
    return frame.with_columns(
        pl.when(pl.col("effect").is_null()).then(None).otherwise(spent).alias("tokens")
    )


def _same_inputs(folder: Path, run: Run, plan: PowerPlan) -> None:
    """Cells of other tables or settings are not mixed with these."""
    digest = hashlib.sha256()
    for path in [*sorted((run.path / "tables").glob("*.parquet")), run.path.parent / "models.json"]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    inputs = {"tables": digest.hexdigest(), "permutations": plan.permutations, "seed": plan.seed}
    path = folder / "inputs.json"
    if path.exists() and json.loads(path.read_text()) != inputs:
        raise InputError(
            f"{folder} holds results of other tables or settings: give another --out, or remove it"
        )
    if not path.exists():
        write_json(path, inputs)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


__all__ = ["EQUAL_COST", "RAW", "SCHEMA", "PowerPlan", "affordable_shuffles", "run_power"]
