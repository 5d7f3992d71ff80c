"""Ground truth: copies we planted ourselves, and how well they are found."""

from heldout.lab.cascade import Judge, judge_by_registration
from heldout.lab.collection import Collection, collect
from heldout.lab.page import study_csv, study_page, write_studies
from heldout.lab.result import Measured, Study
from heldout.lab.study import SEED_DEGREES, Plan, study_transforms
from heldout.lab.transforms import TRANSFORMS, Transform

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
