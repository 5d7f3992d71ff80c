"""Training behind the gate: SFT, and reinforcement learning with a verifiable reward."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.train._training_set import CHOICE, MEDVLTHINKER, OPEN
    from heldout.train.gate import FOLDER, GateError, GateRecord
    from heldout.train.pipeline import TrainResult, train
    from heldout.train.reward import Graded, Solution, grade
    from heldout.train.running import MODEL
    from heldout.train.settings import Precision, Recipe, TrainSettings

__all__ = [
    "CHOICE",
    "FOLDER",
    "MEDVLTHINKER",
    "MODEL",
    "OPEN",
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

__getattr__ = load_on_first_use(__name__, __file__, verb="train_model")
