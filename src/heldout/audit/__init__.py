"""The whole journey: benchmark and corpora in, findings, claims and a report out."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.audit.cases import folder_name, open_cases
    from heldout.audit.conclusion import Conclusion, conclude
    from heldout.audit.corrections import renew_corrections
    from heldout.audit.demo import BROKEN, CHANGED, DECOY, WORDS, DemoResult, Suspected, run_demo
    from heldout.audit.evaluation import evaluate_suite
    from heldout.audit.gates import parse_gate, shut
    from heldout.audit.init_file import write_init
    from heldout.audit.matrix import leak_rates
    from heldout.audit.overlap import OverlapResult, audit_overlap
    from heldout.audit.plan import Plan, make_plan
    from heldout.audit.reader import Audit, read_audit
    from heldout.audit.reporting import Report, report_run
    from heldout.audit.runner import Audited, run_audit
    from heldout.audit.synthesis import fresh_steps, open_fresh_items, synthesize
    from heldout.audit.training import train_model

__all__ = [
    "BROKEN",
    "CHANGED",
    "DECOY",
    "WORDS",
    "Audit",
    "Audited",
    "Conclusion",
    "DemoResult",
    "OverlapResult",
    "Plan",
    "Report",
    "Suspected",
    "audit_overlap",
    "conclude",
    "evaluate_suite",
    "folder_name",
    "fresh_steps",
    "leak_rates",
    "make_plan",
    "open_cases",
    "open_fresh_items",
    "parse_gate",
    "read_audit",
    "renew_corrections",
    "report_run",
    "run_audit",
    "run_demo",
    "shut",
    "synthesize",
    "train_model",
    "write_init",
]

__getattr__ = load_on_first_use(__name__, __file__)
