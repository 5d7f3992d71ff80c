"""The whole journey: benchmark and corpora in, findings, claims and a report out."""

from heldout.audit.demo import DemoResult, run_demo
from heldout.audit.journey import Conclusion, audit_overlap, conclude, replaced_by
from heldout.audit.matrix import matrix_of

__all__ = [
    "Conclusion",
    "DemoResult",
    "audit_overlap",
    "conclude",
    "matrix_of",
    "replaced_by",
    "run_demo",
]
