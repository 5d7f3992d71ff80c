"""The grid as the leaderboard reads it: who has seen which benchmark, and whom a model is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.lab.contamination import Contamination, arm_from_json
from heldout.lab.power_cost import RECORDED

CONTAMINATED, CLEAN, OUTSIDER = "contaminated", "clean", "outsider"
RAW, OTHER_SEEDS, SAME_BASE = "raw", "other seeds", "same base"
WAYS = (RAW, OTHER_SEEDS, SAME_BASE)
PER_BASE = 2  # clean arms of a base that serve as references: few, as in practice


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
    """``weights`` of the largest model, where the grid says so; ``counted``: so are all tokens read."""

    weights: int | None = None
    counted: bool = False


@dataclass(frozen=True)
class LabGrid:
    folder: Path
    models: Mapping[str, LabModel]
    benchmarks: Sequence[str]
    about: About = About()

    def references(self, benchmark: str, base: str, way: str) -> tuple[str, ...]:
        """Clean, fully fine-tuned arms; a model is never its own reference (detectors leave it out)."""
        if way == RAW:
            return ()
        found: dict[str, list[str]] = {}
        for model in self.models.values():
            plan = model.planted
            if (
                plan is not None and model.role(benchmark) == CLEAN and not plan.dose
                and plan.benchmark == benchmark and plan.mode == "full" and plan.stage == "finetune"
            ):  # fmt: skip
                found.setdefault(model.base, []).append(model.name)
        if way == SAME_BASE:
            return tuple(sorted(found.get(base, [])))
        others = [name for name in found if name != base]
        return tuple(name for one in sorted(others) for name in sorted(found[one])[:PER_BASE])


def read_grid(folder: Path) -> LabGrid:
    """``folder`` is what ``heldout lab train`` was told to write, or the runs inside it."""
    runs = next((one for one in (folder / "runs", folder) if (one / "models.json").is_file()), None)
    if runs is None:
        raise InputError(
            f"{folder} holds no runs/models.json: give the folder that heldout lab train wrote"
        )
    path = runs / "models.json"
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable list of models: {error}") from error
    if not isinstance(told, list):
        raise InputError(f"{path}: expected a list of models, found {type(told).__name__}")
    worlds = {
        str(one["name"]): frozenset([*one["base"]["worlds"], *one["base"].get("real", [])])
        for one in told
        if isinstance(one.get("base"), dict)
    }
    models = {str(one["name"]): _model(one, worlds, path) for one in told}
    benchmarks = sorted(
        (one.name for one in runs.iterdir() if (one / "manifest.json").is_file()),
        key=lambda name: (name == "films", name),
    )
    if not benchmarks:
        raise InputError(f"{runs} holds no run folder beside models.json: train the grid again")
    weights = max((int(one["weights"]) for one in told if one.get("weights")), default=None)
    return LabGrid(runs, models, benchmarks, About(weights, _counted(runs, benchmarks)))


def _counted(runs: Path, benchmarks: Sequence[str]) -> bool:
    """Whoever made the tables wrote down what every model read for them."""
    manifests = [json.loads((runs / name / "manifest.json").read_text()) for name in benchmarks]
    return all(
        RECORDED in one for each in manifests for one in each.get("models", {"": {}}).values()
    )


def _model(told: Mapping[str, Any], worlds: Mapping[str, frozenset[str]], path: Path) -> LabModel:
    name = str(told["name"])
    if isinstance(told.get("base"), dict):
        return LabModel(name, name, worlds[name], None, frozenset())
    arm = arm_from_json(told)
    if arm.base not in worlds:
        raise InputError(f"{path}: {name} branches from {arm.base}, which is not among the models")
    leaked = frozenset(int(one) for one in told.get("leaked", []))
    return LabModel(name, arm.base, worlds[arm.base], arm.contamination, leaked)
