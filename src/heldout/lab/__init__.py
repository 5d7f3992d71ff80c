"""Ground truth: copies we planted ourselves, models whose contamination we know, and what is found."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heldout.lab.cascade import Judge, judge_by_registration
    from heldout.lab.collection import Collection, collect
    from heldout.lab.page import study_csv, study_page, write_studies
    from heldout.lab.result import Measured, Study
    from heldout.lab.study import SEED_DEGREES, Plan, study_transforms
    from heldout.lab.transforms import TRANSFORMS, Transform

# Loaded on first use: models are trained on machines that hold nothing of what studies need.
_HOMES = {
    "Judge": "heldout.lab.cascade",
    "judge_by_registration": "heldout.lab.cascade",
    "Collection": "heldout.lab.collection",
    "collect": "heldout.lab.collection",
    "study_csv": "heldout.lab.page",
    "study_page": "heldout.lab.page",
    "write_studies": "heldout.lab.page",
    "Measured": "heldout.lab.result",
    "Study": "heldout.lab.result",
    "SEED_DEGREES": "heldout.lab.study",
    "Plan": "heldout.lab.study",
    "study_transforms": "heldout.lab.study",
    "TRANSFORMS": "heldout.lab.transforms",
    "Transform": "heldout.lab.transforms",
}

__all__ = [
    "SEED_DEGREES",
    "TRANSFORMS",
    "Collection",
    "Judge",
    "Measured",
    "Plan",
    "Study",
    "Transform",
    "collect",
    "judge_by_registration",
    "study_csv",
    "study_page",
    "study_transforms",
    "write_studies",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'heldout.lab' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
