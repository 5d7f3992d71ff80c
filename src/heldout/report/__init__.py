"""What people look at."""

from heldout.report.matrix import matrix_record, write_matrix
from heldout.report.page import write_report

__all__ = ["matrix_record", "write_matrix", "write_report"]
