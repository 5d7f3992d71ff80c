"""Training behind the gate: SFT, and reinforcement learning with a verifiable reward."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import heldout
from heldout.train.gate import GateError, GateRecord
from heldout.train.pipeline import TrainResult, train
from heldout.train.reward import Graded, Solution, grade
from heldout.train.settings import PRESETS, Precision, Recipe, TrainSettings

__all__ = [
    "PRESETS",
    "GateError",
    "GateRecord",
    "Graded",
    "Precision",
    "Recipe",
    "Solution",
    "TrainResult",
    "TrainSettings",
    "grade",
    "train",
]


class _Verb(ModuleType):
    """This package, which Python names like the verb: ``heldout.train(...)`` trains a model.

    The verb also writes the page and the model card, which rooms above this one do; it is reached through
    the package's front door.
    """

    def __call__(self, *args: Any, **values: Any) -> TrainResult:
        made: TrainResult = heldout.train_model(*args, **values)
        return made


sys.modules[__name__].__class__ = _Verb
