"""heldout: is your vision–language benchmark still held out?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from heldout.audit import audit_overlap, conclude, evaluate_suite, synthesize, train_model
    from heldout.audit import evaluate_suite as evaluate
    from heldout.audit import synthesize as synth
    from heldout.audit import train_model as train
    from heldout.audit.read_audit import read_audit
    from heldout.audit.run_audit import run_audit
    from heldout.benchmark import Benchmark, Example, read_benchmark
    from heldout.benchmark.check import check
    from heldout.corpus import Corpus, CorpusItem, open_corpus
    from heldout.detect import Finding
    from heldout.detect.impact import study_encoders, study_impact
    from heldout.engine import open_engine
    from heldout.evaluate.encoders import EncoderSettings, evaluate_encoder
    from heldout.store import Run
    from heldout.verdict import Claim

# Loaded on first use: `import heldout` stays instant, and workers load only what they run.
_HOMES = {
    "Benchmark": "heldout.benchmark",
    "Claim": "heldout.verdict",
    "Corpus": "heldout.corpus",
    "CorpusItem": "heldout.corpus",
    "EncoderSettings": "heldout.evaluate.encoders",
    "Example": "heldout.benchmark",
    "Finding": "heldout.detect",
    "Run": "heldout.store",
    "audit_overlap": "heldout.audit",
    "read_audit": "heldout.audit",
    "run_audit": "heldout.audit",
    "check": "heldout.benchmark.check",
    "conclude": "heldout.audit",
    "evaluate_suite": "heldout.audit",
    "evaluate_encoder": "heldout.evaluate.encoders",
    "open_corpus": "heldout.corpus",
    "open_engine": "heldout.engine",
    "read_benchmark": "heldout.benchmark",
    "study_encoders": "heldout.detect.impact",
    "study_impact": "heldout.detect.impact",
    "synthesize": "heldout.audit",
    "train_model": "heldout.audit",
}

__all__ = [
    "Benchmark",
    "Claim",
    "Corpus",
    "CorpusItem",
    "EncoderSettings",
    "Example",
    "Finding",
    "Run",
    "audit_overlap",
    "check",
    "conclude",
    "evaluate",
    "evaluate_encoder",
    "evaluate_suite",
    "open_corpus",
    "open_engine",
    "read_audit",
    "read_benchmark",
    "run_audit",
    "study_encoders",
    "study_impact",
    "synth",
    "synthesize",
    "train",
    "train_model",
]


def __getattr__(name: str) -> Any:
    if name in ("evaluate", "synth", "train"):  # rooms that can be called like the verbs
        return importlib.import_module(f"heldout.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'heldout' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
