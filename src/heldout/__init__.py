"""heldout: is your vision–language benchmark still held out?"""

import sys

# `python -m heldout` puts the folder one stands in first on the path, and a module that lies beside the data would
# run in place of the library's. Before anything else is imported; until the module is found, -m stands for its name.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    _asked = sys.orig_argv[-len(sys.argv)]  # heldout, or -mheldout
    if _asked.rpartition("m")[2] == "heldout":
        del sys.path[0]

import importlib
from typing import TYPE_CHECKING, Any

from heldout.lazy import load_on_first_use

__version__ = "0.1.0"

if TYPE_CHECKING:
    from heldout import errors as errors
    from heldout import lab as lab
    from heldout.audit import (
        audit_overlap,
        conclude,
        evaluate_suite,
        merge_runs,
        plan_search,
        read_audit,
        report_run,
        run_audit,
        synthesize,
        train_model,
    )
    from heldout.audit import audit_overlap as overlap
    from heldout.audit import evaluate_suite as evaluate
    from heldout.audit import leak_rates as matrix
    from heldout.audit import merge_runs as merge
    from heldout.audit import plan_search as plan
    from heldout.audit import report_run as report
    from heldout.audit import run_audit as audit
    from heldout.audit import run_demo as demo
    from heldout.audit import synthesize as synth
    from heldout.audit import train_model as train
    from heldout.benchmark import Benchmark, Example, check, read_benchmark
    from heldout.corpus import Corpus, CorpusItem, open_corpus
    from heldout.cure import check_canary, plant_canaries, sanitize
    from heldout.cure import plant_canaries as canary
    from heldout.cure import write_gate as gate
    from heldout.detect import Finding, study_encoders, study_impact
    from heldout.detect import impact_of_leaks as impact
    from heldout.engine import check_cluster, open_engine
    from heldout.evaluate import EncoderSettings, evaluate_encoder
    from heldout.model import AskSettings, ModelEndpoint, ModelServer, ScoreSettings, ask, score
    from heldout.report import compare, export, serve
    from heldout.review import open_review
    from heldout.review import open_review as review
    from heldout.store import Run
    from heldout.twin import TwinSettings, make_twins
    from heldout.twin import make_twins as twin
    from heldout.verdict import Claim, Detection, detect_run
    from heldout.verdict import detect_run as detect

__all__ = [
    "AskSettings",
    "Benchmark",
    "Claim",
    "Corpus",
    "CorpusItem",
    "Detection",
    "EncoderSettings",
    "Example",
    "Finding",
    "ModelEndpoint",
    "ModelServer",
    "Run",
    "ScoreSettings",
    "TwinSettings",
    "ask",
    "audit",
    "audit_overlap",
    "canary",
    "check",
    "check_canary",
    "check_cluster",
    "compare",
    "conclude",
    "demo",
    "detect",
    "detect_run",
    "evaluate",
    "evaluate_encoder",
    "evaluate_suite",
    "export",
    "gate",
    "impact",
    "make_twins",
    "matrix",
    "merge",
    "merge_runs",
    "open_corpus",
    "open_engine",
    "open_review",
    "overlap",
    "plan",
    "plan_search",
    "plant_canaries",
    "read_audit",
    "read_benchmark",
    "report",
    "report_run",
    "review",
    "run_audit",
    "sanitize",
    "score",
    "serve",
    "study_encoders",
    "study_impact",
    "synth",
    "synthesize",
    "train",
    "train_model",
    "twin",
]

_load = load_on_first_use(__name__, __file__)


def __getattr__(name: str) -> Any:
    # Rooms that can be called like the verbs, the experiments of the laboratory, and the errors.
    if name in (
        "audit",
        "detect",
        "errors",
        "evaluate",
        "lab",
        "overlap",
        "report",
        "review",
        "synth",
        "train",
        "twin",
    ):
        return importlib.import_module(f"heldout.{name}")
    return _load(name)
