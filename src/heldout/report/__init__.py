"""Pages, figures, comparisons and exports."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.report._next_steps import claims_with_paths, rebuild_command
    from heldout.report._scores_owed import rankings_without
    from heldout.report.audit_page import matrix_record, write_audit_report, write_matrix
    from heldout.report.certainty import PRECISION_FILE, CopyPrecision
    from heldout.report.comparison import Comparison, compare, is_empty
    from heldout.report.evaluation_page import is_evaluation, write_evaluation_report
    from heldout.report.export.formats import Export, export
    from heldout.report.figures.bars import RateBar, rate_chart
    from heldout.report.figures.curves import Curve, OperatingPoint, roc_chart
    from heldout.report.figures.power import (
        DoseCurve,
        DosePanel,
        composition_chart,
        power_chart,
        tail_chart,
    )
    from heldout.report.figures.svg import standalone
    from heldout.report.mixture import (
        count_sources,
        forget_sources,
        note_sources,
        read_sources,
        worst_first,
    )
    from heldout.report.outline import Outline, outline, outline_of, outline_of_audit
    from heldout.report.page import write_report
    from heldout.report.robustness import ROBUSTNESS_FILE, Recall, Robustness, RobustnessFile, Share
    from heldout.report.runs_page import ListedRun, RunsServer, list_runs, serve
    from heldout.report.settings import (
        PDF,
        TABLE_FORMATS,
        WORKBOOK,
        CompareSettings,
        ExportSettings,
        ReportSettings,
        ServeSettings,
    )
    from heldout.report.synthesis import is_synthesis
    from heldout.report.synthesis_page import write_synthesis_report
    from heldout.report.training import is_training, write_training_report

__all__ = [
    "PDF",
    "PRECISION_FILE",
    "ROBUSTNESS_FILE",
    "TABLE_FORMATS",
    "WORKBOOK",
    "CompareSettings",
    "Comparison",
    "CopyPrecision",
    "Curve",
    "DoseCurve",
    "DosePanel",
    "Export",
    "ExportSettings",
    "ListedRun",
    "OperatingPoint",
    "Outline",
    "RateBar",
    "Recall",
    "ReportSettings",
    "Robustness",
    "RobustnessFile",
    "RunsServer",
    "ServeSettings",
    "Share",
    "claims_with_paths",
    "compare",
    "composition_chart",
    "count_sources",
    "export",
    "forget_sources",
    "is_empty",
    "is_evaluation",
    "is_synthesis",
    "is_training",
    "list_runs",
    "matrix_record",
    "note_sources",
    "outline",
    "outline_of",
    "outline_of_audit",
    "power_chart",
    "rankings_without",
    "rate_chart",
    "read_sources",
    "rebuild_command",
    "roc_chart",
    "serve",
    "standalone",
    "tail_chart",
    "worst_first",
    "write_audit_report",
    "write_evaluation_report",
    "write_matrix",
    "write_report",
    "write_synthesis_report",
    "write_training_report",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="report_run")
