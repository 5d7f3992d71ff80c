"""What people look at."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.report.audit_page import write_audit_report
    from heldout.report.evaluation_page import write_evaluation_report
    from heldout.report.matrix import matrix_record, write_matrix
    from heldout.report.page import write_report
    from heldout.report.synthesis_page import write_synthesis_report
    from heldout.report.training import write_training_report

__all__ = [
    "matrix_record",
    "write_audit_report",
    "write_evaluation_report",
    "write_matrix",
    "write_report",
    "write_synthesis_report",
    "write_training_report",
]

__getattr__ = load_on_first_use(__name__, __file__)
