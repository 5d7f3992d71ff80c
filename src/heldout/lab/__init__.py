"""Ground truth: copies we planted ourselves, models whose contamination we know, and what is found."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
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

# Models are trained on machines that hold nothing of what studies need.
__getattr__ = load_on_first_use(__name__, __file__)
