"""Contamination plans: which benchmark a model has seen, how often, when and how. Data, not code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError

STAGES = ("finetune", "pretrain")
MODES = ("full", "language", "lora")
ORDERS = ("released", "shuffled")
PARTS = ("full", "image", "text")
_CHOICES = {"stage": STAGES, "mode": MODES, "order": ORDERS, "part": PARTS}


@dataclass(frozen=True)
class Contamination:
    """``dose``: how often every leaked item is shown. ``share`` of the pictures leaks, with all their
    items. ``dilution``: the leaked share of a fine-tuning mix; the rest is fresh data of the world.
    ``part``: picture and words, the picture with other words, or the words without it."""

    benchmark: str
    dose: int
    share: float = 1.0
    stage: str = "finetune"
    mode: str = "full"
    order: str = "released"
    part: str = "full"
    paraphrased: bool = False
    dilution: float = 0.5

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(
                    f"contamination plan: {name} '{getattr(self, name)}'; expected one of "
                    f"{', '.join(known)}"
                )
        if self.dose < 0 or not 0 < self.share <= 1 or not 0 < self.dilution <= 1:
            raise InputError(
                f"contamination plan: dose {self.dose}, share {self.share}, dilution {self.dilution}; "
                f"expected a dose of 0 or more, and shares above 0 and up to 1"
            )


@dataclass(frozen=True)
class Arm:
    """One model of the grid: from which base it branches, and what it saw there. Dose 0 is a clean one,
    trained for as long as its neighbours. ``seed`` draws everything that is drawn."""

    name: str
    base: str
    seed: int
    contamination: Contamination

    @property
    def clean(self) -> bool:
        return self.contamination.dose == 0

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "contamination": dataclasses.asdict(self.contamination)}


def arm_from_json(told: Mapping[str, Any]) -> Arm:
    known = {field.name for field in dataclasses.fields(Contamination)}
    plan = dict(told.get("contamination") or {})
    if unknown := sorted(set(plan) - known):
        raise InputError(
            f"contamination plan of '{told.get('name')}': no such fields as {', '.join(unknown)}; there "
            f"are {', '.join(sorted(known))}"
        )
    try:
        return Arm(str(told["name"]), str(told["base"]), int(told["seed"]), Contamination(**plan))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"a grid's arm needs name, base, seed and contamination: {error!r}"
        ) from error


def write_arms(path: str | Path, arms: Sequence[Arm]) -> None:
    Path(path).write_text(json.dumps([arm.as_json() for arm in arms], indent=1) + "\n")


def read_arms(path: str | Path) -> list[Arm]:
    try:
        told = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable grid: {error}") from error
    arms = [arm_from_json(one) for one in told]
    names = [arm.name for arm in arms]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: two arms are called {twice[0]}")
    return arms
