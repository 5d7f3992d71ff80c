"""Every detector by name, and how several of them are run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import entry_points

from heldout.detect import (
    blind,
    dataset_inference,
    order_joint,
    order_neighbour,
    order_trend,
    tail_enrichment,
    top_k_overlap,
)
from heldout.detect.behaviour import (
    choice_confusion,
    circular,
    combined,
    fresh_drop,
    margins,
    multimodal_leakage,
    ngram_accuracy,
    option_order,
    slot_guess,
    twin_consistency,
    twin_drop,
    twin_memory,
)
from heldout.detect.detector import Detector
from heldout.detect.finding import Finding, NotTestable, Outcome, not_testable
from heldout.detect.item_scores import MEMBERSHIP
from heldout.detect.self_checks import SelfCheck, self_checks
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError

GROUP = "heldout.detectors"


def detectors() -> dict[str, Detector]:
    """Every detector by name: ours, then those of other packages (entry point ``heldout.detectors``)."""
    known = {detector.name: detector for detector in _BUILT_IN}
    return known | _of_packages(tuple(sys.path))


@lru_cache(maxsize=2)
def _of_packages(path: tuple[str, ...]) -> dict[str, Detector]:
    """``path`` is where packages are looked for."""
    known: dict[str, Detector] = {}
    taken = {detector.name for detector in _BUILT_IN}
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else point.value
        where = f"the detector '{point.name}' of the package {package}"
        try:
            loaded = point.load()
        except Exception as error:
            raise InputError(
                f"{where} cannot be loaded ({type(error).__name__}: {error}): repair or uninstall it"
            ) from error
        if not isinstance(loaded, Detector):
            loaded = loaded() if callable(loaded) else loaded
        if not isinstance(loaded, Detector):
            raise InputError(
                f"{where}: expected a heldout.detect.Detector, found {type(loaded).__name__}"
            )
        if loaded.name in taken:
            raise InputError(
                f"{where} is called {loaded.name}, which is the name of another detector"
            )
        taken.add(loaded.name)
        known[loaded.name] = loaded
    return known


def run_detectors(
    tables: ScoreTables, names: Sequence[str] = (), settings: DetectSettings | None = None
) -> tuple[list[Outcome], dict[str, list[SelfCheck]]]:
    """Outcomes of the named detectors (all if none is named), and every model's self-checks."""
    chosen = settings or DetectSettings()
    known = detectors()
    for name in names:
        if name not in known:
            raise InputError(f"there is no detector '{name}'; there are {', '.join(known)}")
        if known[name].needs == "answers" and not tables.answering:
            raise InputError(f"{name} reads answers, and this run has none: run heldout ask first")
        if known[name].needs == "scores" and not tables.models:
            raise InputError(f"{name} reads scores, and this run has none: run heldout score first")
    recorded = sorted({*tables.models, *tables.answering})
    for model in (*chosen.baselines, *([chosen.reference] if chosen.reference else [])):
        if model not in recorded:
            raise InputError(
                f"no scores of '{model}' in this run, and no answers; it has "
                f"{', '.join(recorded) or 'none'}"
            )
    checks = {model: self_checks(tables, model) for model in tables.models}
    broken = {
        model: "; ".join(check.reason for check in results if check.failed)
        for model, results in checks.items()
        if any(check.failed for check in results)
    }
    sound = tables.without(list(broken))
    recorded_for = {"scores": bool(tables.models), "answers": bool(tables.answering)}
    outcomes: list[Outcome] = []
    for name in names or known:
        if not recorded_for.get(known[name].needs, True):
            continue
        # Answers count even if the model's scores failed their checks.
        for model, reason in broken.items() if known[name].needs == "scores" else ():
            message = f"a self-check of its scores failed: {reason}"
            outcomes.append(not_testable(name, tables.benchmark, model, message))
        outcomes += _outcomes(known[name], sound, chosen)
    return outcomes, checks


def _outcomes(
    detector: Detector, tables: ScoreTables, settings: DetectSettings
) -> Iterator[Outcome]:
    for outcome in detector.find(tables, settings):
        if not isinstance(outcome, Finding | NotTestable) or outcome.detector != detector.name:
            raise InputError(
                f"the detector {detector.name} gave {str(outcome)[:200]!r}: expected a Finding or a "
                f"NotTestable of this detector"
            )
        yield outcome


_BUILT_IN = (
    order_joint.DETECTOR,
    order_neighbour.DETECTOR,
    order_trend.DETECTOR,
    *MEMBERSHIP,
    dataset_inference.DETECTOR,
    tail_enrichment.DETECTOR,
    top_k_overlap.DETECTOR,
    blind.DETECTOR,
    twin_drop.DETECTOR,
    twin_memory.DETECTOR,
    margins.TWIN_MARGIN,
    twin_consistency.DETECTOR,
    option_order.DETECTOR,
    margins.OPTION_MARGIN,
    circular.DETECTOR,
    choice_confusion.DETECTOR,
    multimodal_leakage.DETECTOR,
    slot_guess.DETECTOR,
    ngram_accuracy.DETECTOR,
    fresh_drop.DETECTOR,
    combined.DETECTOR,
)
