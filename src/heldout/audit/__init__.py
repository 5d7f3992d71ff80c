"""The whole journey: benchmark and corpora in, findings, claims and a report out."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.audit.audit_file import parse_gate, shut
    from heldout.audit.cases import open_cases
    from heldout.audit.conclusion import Conclusion, Report, conclude, report_run
    from heldout.audit.costs import (
        CostPlan,
        MachineSpec,
        SearchCost,
        StageRates,
        plan_search,
        read_machines,
    )
    from heldout.audit.demo import (
        BROKEN,
        CHANGED,
        DECOY,
        WORDS,
        DemoResult,
        DemoSettings,
        Suspect,
        run_demo,
    )
    from heldout.audit.init_file import write_init
    from heldout.audit.matrix import MatrixSettings, leak_rates
    from heldout.audit.overlap import OverlapResult, PartResult, audit_overlap
    from heldout.audit.parts import MergeSettings, merge_runs
    from heldout.audit.plan import Plan, make_plan
    from heldout.audit.reader import Audit, read_audit
    from heldout.audit.runner import AuditResult, run_audit
    from heldout.audit.verbs import (
        evaluate_suite,
        fresh_steps,
        open_fresh_items,
        synthesize,
        train_model,
    )

__all__ = [
    "BROKEN",
    "CHANGED",
    "DECOY",
    "WORDS",
    "Audit",
    "AuditResult",
    "Conclusion",
    "CostPlan",
    "DemoResult",
    "DemoSettings",
    "MachineSpec",
    "MatrixSettings",
    "MergeSettings",
    "OverlapResult",
    "PartResult",
    "Plan",
    "Report",
    "SearchCost",
    "StageRates",
    "Suspect",
    "audit_overlap",
    "conclude",
    "evaluate_suite",
    "fresh_steps",
    "leak_rates",
    "make_plan",
    "merge_runs",
    "open_cases",
    "open_fresh_items",
    "parse_gate",
    "plan_search",
    "read_audit",
    "read_machines",
    "report_run",
    "run_audit",
    "run_demo",
    "shut",
    "synthesize",
    "train_model",
    "write_init",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="run_audit")
