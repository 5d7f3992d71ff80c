"""What people look at."""

from heldout.report.page import write_report

__all__ = ["write_report"]
