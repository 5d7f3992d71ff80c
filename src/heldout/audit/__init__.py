"""The whole journey: benchmark and corpora in, findings, claims and a report out."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.audit.demo import DemoResult, run_demo
    from heldout.audit.evaluation import evaluate_suite
    from heldout.audit.journey import Conclusion, audit_overlap, conclude, replaced_by
    from heldout.audit.matrix import matrix_of
    from heldout.audit.reader import Audit, read_audit
    from heldout.audit.runner import Audited, run_audit
    from heldout.audit.synthesis import synthesize
    from heldout.audit.training import train_model

__all__ = [
    "Audit",
    "Audited",
    "Conclusion",
    "DemoResult",
    "audit_overlap",
    "conclude",
    "evaluate_suite",
    "matrix_of",
    "read_audit",
    "replaced_by",
    "run_audit",
    "run_demo",
    "synthesize",
    "train_model",
]

__getattr__ = load_on_first_use(__name__, __file__)
