"""Calibrations as JSON: every number of the report's figures and tables, for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heldout.overlap.calibration.calibration import Calibration, ControlRun, Quantiles, quantiles_of
from heldout.overlap.calibration.matrices import HubReport
from heldout.overlap.calibration.null import Null
from heldout.overlap.calibration.sweep import Control, Rate, SweepPoint

SCHEMA_VERSION = 1


def calibration_record(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "calibrations": [_one(calibration) for calibration in calibrations],
    }


def _one(calibration: Calibration) -> dict[str, Any]:
    return {
        "corpus": calibration.corpus,
        "encoder": calibration.encoder,
        "alpha_asked": calibration.asked,
        "problem": calibration.problem or None,
        "notes": calibration.notes,
        "null": None if calibration.null is None else _null(calibration.null, calibration.resolves),
        "threshold": None if calibration.tau is None else calibration.tau.record(),
        "benchmark": {
            "images": len(calibration.benchmark),
            "design_effect": calibration.design_effect,
            "similarity": _quantiles(calibration.benchmark.quantiles),
        },
        "flagged": sorted(calibration.flagged()),
        "sweep": [_point(point) for point in calibration.sweep.points],
        "unresolved": [
            {"alpha": alpha, "null_needed": needed}
            for alpha, needed in calibration.sweep.unresolved
        ],
        "controls": [_control(control) for control in calibration.controls],
        "hubs": None if calibration.hubs is None else _hubs(calibration.hubs),
    }


def _null(null: Null, resolves: float | None) -> dict[str, Any]:
    return {
        "source": null.source,
        "images": len(null),
        "copies_taken_out": null.copies,
        "searched": null.searched,
        "similarity": _quantiles(quantiles_of(null.similarities)),
        "duplicates_from": null.duplicates,
        "design_effect": null.design_effect,
        "smallest_alpha": resolves,
        "seed": null.seed,
    }


def _quantiles(quantiles: Quantiles | None) -> dict[str, float] | None:
    return None if quantiles is None else quantiles._asdict()


def _point(point: SweepPoint) -> dict[str, Any]:
    return {
        "alpha": point.threshold.alpha,
        "tau": point.threshold.value,
        "tau_interval": point.threshold.interval._asdict(),
        "images": _rate(point.images),
        "questions": None if point.questions is None else _rate(point.questions),
        "images_at_ends_of_tau": list(point.images_at_ends),
        "p": point.p,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "flagged": rate.flagged,
        "n": rate.n,
        "rate": rate.value,
        **rate.interval._asdict(),
    }


def _control(control_run: ControlRun) -> dict[str, Any]:
    return {
        "name": control_run.name,
        "domain": control_run.domain,
        "images": len(control_run.nearest),
        "similarity": _quantiles(control_run.nearest.quantiles),
        "at_alpha": None if control_run.at_alpha is None else _control_point(control_run.at_alpha),
        "sweep": [_control_point(point) for point in control_run.points],
    }


def _control_point(point: Control) -> dict[str, Any]:
    return {
        "alpha": point.alpha,
        "images": _rate(point.images),
        "p": point.p,
        "fires": point.fires,
    }


def _hubs(report: HubReport) -> dict[str, Any]:
    return {
        "images": report.images,
        "corpus_pictures": report.corpus_items,
        "attracting": report.attracting,
        "attracting_expected": report.attracting_expected,
        "share_of_images_at_hubs": report.share,
        "hubs": [
            {
                "corpus_id": hub.corpus_id,
                "images": list(hub.images),
                "count": hub.count,
                "expected": hub.expected,
                "p": hub.p,
                "p_adjusted": hub.p_adjusted,
                "similarity": hub.similarity,
            }
            for hub in report.hubs
        ],
    }
