"""Ground truth: planted copies, models whose contamination is known, and what is found."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.lab.confound import (
        confound_json,
        confound_page,
        study_confound,
        write_confound,
    )
    from heldout.lab.demo.data import BENCHMARK as DEMO_BENCHMARK
    from heldout.lab.demo.data import (
        CONTAMINATED,
        OUTSIDERS,
        DemoModels,
        DemoSize,
        audit_text,
        models_for,
        shipped_models,
        write_demo,
    )
    from heldout.lab.demo.data import FILE as DEMO_FILE
    from heldout.lab.demo.data import NAME as DEMO_NAME
    from heldout.lab.demo.data import TABLE as DEMO_TABLE
    from heldout.lab.demo.data import TRUTH as DEMO_TRUTH
    from heldout.lab.demo.data import WHO as DEMO_WHO
    from heldout.lab.leaks.board import leak_board, run_leaks
    from heldout.lab.leaks.page import summary, write_leaks, write_sheets
    from heldout.lab.models.grid import (
        Grid,
        GridRecipe,
        PreparedGrid,
        load_reading,
        reads_of,
        recipe_of,
        standing_recipe,
    )
    from heldout.lab.models.medical import (
        convert_language,
        joined_model,
        lab_tokenizer,
        medical_arms,
        medical_bases,
        medical_reads,
        medical_recipe,
    )
    from heldout.lab.models.medical_data import efficientnet, prepare_medical
    from heldout.lab.models.onnx_export import export_onnx
    from heldout.lab.models.planting import standing_arms, standing_bases
    from heldout.lab.models.pool import Lengths, mixed, questions
    from heldout.lab.models.releases import (
        REWORDED,
        Release,
        real_pool,
        release_pages,
        words,
        write_release,
    )
    from heldout.lab.models.replay import Collector, Replay, RequestKeys
    from heldout.lab.models.sheet import Sheet, learn_tokenizer
    from heldout.lab.models.tables import train_grid
    from heldout.lab.models.training import clock
    from heldout.lab.models.vlm import (
        LARGER,
        MEDIUM,
        SMALL,
        TOY,
        Size,
        new_model,
        new_processor,
        save_model,
    )
    from heldout.lab.models.worlds import RELEASED, TRAINING, WORLDS
    from heldout.lab.power._answers import requirements
    from heldout.lab.power.board import standings, with_earlier, with_truth
    from heldout.lab.power.conform import (
        Conformance,
        conform,
        conform_all,
        find_package,
        null_calibration,
        power_by_dose,
    )
    from heldout.lab.power.leaderboard import (
        DetectorResults,
        read_results,
        results_of,
        write_leaderboard,
    )
    from heldout.lab.power.models import read_grid
    from heldout.lab.power.page import write_power
    from heldout.lab.power.planted_answers import planted_answers
    from heldout.lab.power.planted_scores import planted_scores
    from heldout.lab.power.run import run_power
    from heldout.lab.settings import (
        ConformSettings,
        ConfoundSettings,
        DegreeSettings,
        GridSettings,
        LeakSettings,
        PowerSettings,
        TransformSettings,
    )
    from heldout.lab.transforms.cascade import PairJudge, judge_by_registration
    from heldout.lab.transforms.degrees import degrees_page, measure_degrees
    from heldout.lab.transforms.page import run_transforms, study_csv, study_page, write_studies
    from heldout.lab.transforms.queries import Collection, collect
    from heldout.lab.transforms.result import (
        TransformRates,
        TransformStudy,
    )
    from heldout.lab.transforms.study import study_transforms
    from heldout.lab.transforms.transform import TRANSFORMS
__all__ = [
    "CONTAMINATED",
    "DEMO_BENCHMARK",
    "DEMO_FILE",
    "DEMO_NAME",
    "DEMO_TABLE",
    "DEMO_TRUTH",
    "DEMO_WHO",
    "LARGER",
    "MEDIUM",
    "OUTSIDERS",
    "RELEASED",
    "REWORDED",
    "SMALL",
    "TOY",
    "TRAINING",
    "TRANSFORMS",
    "WORLDS",
    "Collection",
    "Collector",
    "ConformSettings",
    "Conformance",
    "ConfoundSettings",
    "DegreeSettings",
    "DemoModels",
    "DemoSize",
    "DetectorResults",
    "Grid",
    "GridRecipe",
    "GridSettings",
    "LeakSettings",
    "Lengths",
    "PairJudge",
    "PowerSettings",
    "PreparedGrid",
    "Release",
    "Replay",
    "RequestKeys",
    "Sheet",
    "Size",
    "TransformRates",
    "TransformSettings",
    "TransformStudy",
    "audit_text",
    "clock",
    "collect",
    "conform",
    "conform_all",
    "confound_json",
    "confound_page",
    "convert_language",
    "degrees_page",
    "efficientnet",
    "export_onnx",
    "find_package",
    "joined_model",
    "judge_by_registration",
    "lab_tokenizer",
    "leak_board",
    "learn_tokenizer",
    "load_reading",
    "measure_degrees",
    "medical_arms",
    "medical_bases",
    "medical_reads",
    "medical_recipe",
    "mixed",
    "models_for",
    "new_model",
    "new_processor",
    "null_calibration",
    "planted_answers",
    "planted_scores",
    "power_by_dose",
    "prepare_medical",
    "questions",
    "read_grid",
    "read_results",
    "reads_of",
    "real_pool",
    "recipe_of",
    "release_pages",
    "requirements",
    "results_of",
    "run_leaks",
    "run_power",
    "run_transforms",
    "save_model",
    "shipped_models",
    "standing_arms",
    "standing_bases",
    "standing_recipe",
    "standings",
    "study_confound",
    "study_csv",
    "study_page",
    "study_transforms",
    "summary",
    "train_grid",
    "with_earlier",
    "with_truth",
    "words",
    "write_confound",
    "write_demo",
    "write_leaderboard",
    "write_leaks",
    "write_power",
    "write_release",
    "write_sheets",
    "write_studies",
]

# Models are trained on machines without the packages that studies need.
__getattr__ = load_on_first_use(__name__, __file__)
