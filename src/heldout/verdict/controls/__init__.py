"""Challenges to a finding: each says what it would take for the finding to be about memory."""

from heldout.verdict.controls.baseline import against_baseline
from heldout.verdict.controls.composition import Composition, sweep_cohort
from heldout.verdict.controls.gain import GainFit, fit_gains
from heldout.verdict.controls.inflation import Inflation, overlap_inflation, run_inflation
from heldout.verdict.controls.orders import OrderResult, ablate_orders, adjusted_trend
from heldout.verdict.controls.strata import Stratum, by_stratum, run_strata
from heldout.verdict.controls.structure import Within, trend_within_fields

__all__ = [
    "Composition",
    "GainFit",
    "Inflation",
    "OrderResult",
    "Stratum",
    "Within",
    "ablate_orders",
    "adjusted_trend",
    "against_baseline",
    "by_stratum",
    "fit_gains",
    "overlap_inflation",
    "run_inflation",
    "run_strata",
    "sweep_cohort",
    "trend_within_fields",
]
