"""The grid as the leaderboard reads it: which model has seen which benchmark, and which models it is compared
with."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from heldout.detect import CANONICAL, ScoreTables
from heldout.errors import InputError
from heldout.lab.models.planting import Contamination, arm_from_json

# Which of a run's tables a detector is given: some models, leaked pictures marked, fewer shuffles.


MARK = (
    "seen_by_the_split",
    "no",
)  # as the setting unseen takes it: items of pictures that did not leak


def narrowed(tables: ScoreTables, models: Collection[str]) -> ScoreTables:
    """The same run as if only these models had been scored and asked."""
    wanted = pl.col("model").is_in(list(models))

    def kept(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        return None if frame is None else frame.filter(wanted)

    return replace(
        tables,
        scores=tables.scores.filter(wanted),
        order_joint=kept(tables.order_joint),
        order_neighbour=kept(tables.order_neighbour),
        entropies=kept(tables.entropies),
        answers=kept(tables.answers),
    )


def marked(tables: ScoreTables, leaked: Collection[int]) -> ScoreTables:
    """Every item says whether its picture is among those that leaked; pictures count in released order."""
    clusters = list(dict.fromkeys(tables.items["cluster"]))
    seen = {clusters[place] for place in leaked if place < len(clusters)}
    metadata = [
        json.dumps({**json.loads(text or "{}"), MARK[0]: "yes" if cluster in seen else MARK[1]})
        for text, cluster in zip(tables.items["metadata"], tables.items["cluster"], strict=True)
    ]
    return replace(tables, items=tables.items.with_columns(pl.Series("metadata", metadata)))


def fewer_shuffles(tables: ScoreTables, most: int) -> ScoreTables:
    """order-joint as if it had been given a smaller budget: the first shuffles of every shard."""
    if tables.order_joint is None:
        return tables
    number = pl.col("permutation").cast(pl.Int64, strict=False)
    kept = tables.order_joint.filter((pl.col("permutation") == CANONICAL) | (number < most))
    return replace(tables, order_joint=kept)


# What a detector costs: the tokens one model has to read for it.


#: in a model's part of the manifest: tokens read for its scores, by table
RECORDED = "forward_tokens"


def recorded_tokens(manifest: Mapping[str, Any], model: str) -> Mapping[str, Any] | None:
    record: Mapping[str, Any] | None = manifest.get("models", {}).get(model, {}).get(RECORDED)
    return record


CONTAMINATED, CLEAN, OUTSIDER = "contaminated", "clean", "outsider"
RAW, OTHER_SEEDS, SAME_BASE = "raw", "other seeds", "same base"
WAYS = (RAW, OTHER_SEEDS, SAME_BASE)
PER_BASE = 2  # clean arms of a base that serve as references: few, as in practice
MOST_BASES = 7  # other bases that serve so


@dataclass(frozen=True)
class LabModel:
    """``planted`` is None for a base; ``leaked`` are the pictures it saw, by their number."""

    name: str
    base: str
    worlds: frozenset[str]
    planted: Contamination | None
    leaked: frozenset[int]

    def role(self, benchmark: str) -> str:
        """An outsider has never seen the benchmark's world; a clean model has, but none of its items."""
        plan = self.planted
        if plan is not None and plan.dose and plan.benchmark == benchmark:
            return CONTAMINATED
        return CLEAN if benchmark in self.worlds else OUTSIDER

    @property
    def arm(self) -> str:
        return self.name.removeprefix(f"{self.base}-") if self.planted else "base"


@dataclass(frozen=True)
class About:
    """``weights`` of the largest model, where the grid says so; ``counted``: so are all tokens read;
    ``earlier``: benchmarks whose rows were counted before."""

    weights: int | None = None
    counted: bool = False
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabGrid:
    """``drawn``: every base has its own references of other seeds. With the first ones by name all tests share a
    reference mean, and whether they fire is hardly independent, however many bases there are."""

    folder: Path
    models: Mapping[str, LabModel]
    benchmarks: Sequence[str]
    about: About = About()
    drawn: bool = False

    def references(self, benchmark: str, base: str, way: str) -> tuple[str, ...]:
        """Clean, fully fine-tuned arms; a model is never its own reference (detectors leave it out)."""
        if way == RAW:
            return ()
        seen: dict[str, list[str]] = {}
        for model in self.models.values():
            plan = model.planted
            if (
                plan is not None
                and model.role(benchmark) == CLEAN
                and not plan.dose
                and plan.benchmark == benchmark
                and plan.mode == "full"
                and plan.stage == "finetune"
            ):
                seen.setdefault(model.base, []).append(model.name)
        if way == SAME_BASE:
            return tuple(sorted(seen.get(base, [])))
        others = sorted(name for name in seen if name != base)
        if self.drawn:
            random.Random(f"{benchmark} {base}").shuffle(others)
        others = sorted(others[:MOST_BASES])
        return tuple(name for other in others for name in sorted(seen[other])[:PER_BASE])


def read_grid(folder: Path) -> LabGrid:
    """``folder`` is the output of ``heldout lab train``, or the runs inside it."""
    runs = next(
        (path for path in (folder / "runs", folder) if (path / "models.json").is_file()), None
    )
    if runs is None:
        raise InputError(
            f"{folder} holds no runs/models.json: give the folder that heldout lab train wrote"
        )
    path = runs / "models.json"
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable list of models: {error}") from error
    if not isinstance(record, list):
        raise InputError(f"{path}: expected a list of models, found {type(record).__name__}")
    worlds = {
        str(entry["name"]): frozenset([*entry["base"]["worlds"], *entry["base"].get("real", [])])
        for entry in record
        if isinstance(entry.get("base"), dict)
    }
    models = {str(entry["name"]): _model(entry, worlds, path) for entry in record}
    benchmarks = sorted(
        (path.name for path in runs.iterdir() if (path / "manifest.json").is_file()),
        key=lambda name: (name == "films", name),
    )
    if not benchmarks:
        raise InputError(f"{runs} holds no run folder beside models.json: train the grid again")
    weights = max((int(entry["weights"]) for entry in record if entry.get("weights")), default=None)
    return LabGrid(runs, models, benchmarks, About(weights, _counted(runs, benchmarks)))


def _counted(runs: Path, benchmarks: Sequence[str]) -> bool:
    """The maker of the tables recorded what every model read for them."""
    manifests = [json.loads((runs / name / "manifest.json").read_text()) for name in benchmarks]
    return all(
        RECORDED in facts for each in manifests for facts in each.get("models", {"": {}}).values()
    )


def _model(record: Mapping[str, Any], worlds: Mapping[str, frozenset[str]], path: Path) -> LabModel:
    name = str(record["name"])
    if isinstance(record.get("base"), dict):
        return LabModel(name, name, worlds[name], None, frozenset())
    arm = arm_from_json(record)
    if arm.base not in worlds:
        raise InputError(f"{path}: {name} branches from {arm.base}, which is not among the models")
    leaked = frozenset(int(place) for place in record.get("leaked", []))
    return LabModel(name, arm.base, worlds[arm.base], arm.contamination, leaked)
