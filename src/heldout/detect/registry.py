"""Every detector by name, and how a run of several of them is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from heldout.detect import (
    blind,
    order_joint,
    order_neighbour,
    order_trend,
    tail_enrichment,
    top_k_overlap,
)
from heldout.detect.behaviour import (
    choice_confusion,
    circular,
    multimodal_leakage,
    option_order,
    slot_guess,
    twin_consistency,
    twin_drop,
)
from heldout.detect.membership import MEMBERSHIP
from heldout.detect.outcome import Outcome, not_testable
from heldout.detect.self_checks import SelfCheck, self_checks
from heldout.detect.settings import Settings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError


@dataclass(frozen=True)
class Detector:
    """``find`` yields one outcome per cell. Higher means more likely seen; p is two-sided."""

    name: str
    family: str  # findings of one family and model make one claim: order, membership, cohort, blind
    summary: str
    find: Callable[[ScoreTables, Settings], Iterable[Outcome]]
    needs: str = "scores"  # or "answers": what has to be recorded


def detectors() -> dict[str, Detector]:
    """Ours, then those that other packages bring by the entry point ``heldout.detectors``."""
    found = {detector.name: detector for detector in _BUILT_IN}
    for point in entry_points(group="heldout.detectors"):
        made = point.load()
        detector = made if isinstance(made, Detector) else made()
        found.setdefault(detector.name, detector)
    return found


def run_detectors(
    tables: ScoreTables, names: Sequence[str] = (), settings: Settings | None = None
) -> tuple[list[Outcome], dict[str, list[SelfCheck]]]:
    """Outcomes of the named detectors (all if none is named), and every model's self-checks."""
    chosen = settings or Settings()
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
        model: "; ".join(check.reason for check in made if check.failed)
        for model, made in checks.items()
        if any(check.failed for check in made)
    }
    sound = tables.without(list(broken))
    recorded_for = {"scores": bool(tables.models), "answers": bool(tables.answering)}
    outcomes: list[Outcome] = []
    for name in names or known:
        if not recorded_for.get(known[name].needs, True):
            continue
        # What a model answered stands, whatever is the matter with its scores.
        for model, reason in broken.items() if known[name].needs == "scores" else ():
            message = f"a self-check of its scores failed: {reason}"
            outcomes.append(not_testable(name, tables.benchmark, model, message))
        outcomes += known[name].find(sound, chosen)
    return outcomes, checks


_BUILT_IN = [
    Detector(
        order_joint.NAME,
        "order",
        "canonical against shuffled shards, each item given those before",
        order_joint.find,
    ),
    Detector(
        order_neighbour.NAME,
        "order",
        "an item after its released predecessor, or after another",
        order_neighbour.find,
    ),
    Detector(
        order_trend.NAME,
        "order",
        "do scores rise or fall along the released order?",
        order_trend.find,
    ),
    *(
        Detector(item_detector.name, "membership", item_detector.summary, item_detector.find)
        for item_detector in MEMBERSHIP
    ),
    Detector(
        tail_enrichment.NAME, "cohort", "items far above the cohort's median", tail_enrichment.find
    ),
    Detector(
        top_k_overlap.NAME,
        "cohort",
        "do two models find the same items easiest?",
        top_k_overlap.find,
    ),
    Detector(blind.NAME, "blind", "what words and metadata tell without any model", blind.find),
    *(
        Detector(
            name, name if name != twin_consistency.NAME else "consistency", summary, find, "answers"
        )
        for name, summary, find in (
            (
                twin_drop.NAME,
                "same question, another picture and answer: who falls?",
                twin_drop.find,
            ),
            (twin_consistency.NAME, "do drops grow with known degrees?", twin_consistency.find),
            (option_order.NAME, "right as released, wrong reordered (CR, PCR)", option_order.find),
            (circular.NAME, "vanilla beside circular accuracy", circular.find),
            (
                choice_confusion.NAME,
                "wrong options that are right elsewhere",
                choice_confusion.find,
            ),
            (
                multimodal_leakage.NAME,
                "right without the image, and the base is not",
                multimodal_leakage.find,
            ),
            (slot_guess.NAME, "masked words, released wording or paraphrase", slot_guess.find),
        )
    ),
]
