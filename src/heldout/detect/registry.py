"""Every detector by name, what an endpoint supports of them, and how several of them are run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import polars as pl

from heldout.detect import (
    blind,
    dataset_inference,
    image_membership,
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
from heldout.detect.detector import TWIN_SCORES, Detector, Difference, Need
from heldout.detect.finding import Finding, NotTestable, Outcome, not_testable
from heldout.detect.item_scores import MEMBERSHIP, unseen_items
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables, metadata_column
from heldout.errors import HeldoutError, InputError, blame_the_machine, nearest_name
from heldout.model import Capabilities, check_scores
from heldout.model import SelfCheck as SelfCheck

# Checks of a model's scores before any test: with scores that cannot be trusted nothing is testable.


def self_checks(tables: ScoreTables, model: str) -> list[SelfCheck]:
    return check_scores(tables.scored(model), len(tables.items), tables.identities.get(model, {}))


GROUP = "heldout.detectors"


def detectors() -> dict[str, Detector]:
    """Every detector by name: ours, then those of other packages (entry point ``heldout.detectors``)."""
    known = {detector.name: detector for detector in _BUILT_IN}
    return known | _of_packages(tuple(sys.path))


class Unusable(Detector):
    """One that its package fails to give: for every model the reason, and the others go on."""


@lru_cache(maxsize=2)
def _of_packages(path: tuple[str, ...]) -> dict[str, Detector]:
    """``path`` is where packages are looked for."""
    known: dict[str, Detector] = {}
    taken = {detector.name for detector in _BUILT_IN}
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else point.value
        loaded = _loaded(point, f"the detector '{point.name}' of the package {package}", taken)
        if isinstance(loaded, str):
            name = point.name if point.name not in taken else f"{point.name} of {package}"
            loaded = _unusable(name, loaded)
        taken.add(loaded.name)
        known[loaded.name] = guarded(loaded)
    return known


def _loaded(point: EntryPoint, where: str, taken: Collection[str]) -> Detector | str:
    """The detector of an entry point, or what is wrong with it."""
    try:
        loaded = point.load()
        if not isinstance(loaded, Detector) and callable(loaded):
            loaded = loaded()
    except Exception as error:
        blame_the_machine(error)
        return f"{where} cannot be loaded ({type(error).__name__}: {error}): repair or uninstall it"
    if not isinstance(loaded, Detector):
        return f"{where}: expected a heldout.detect.Detector, found {type(loaded).__name__}"
    if loaded.name in taken:
        return f"{where} is called {loaded.name}, which is the name of another detector"
    return loaded


def _unusable(name: str, reason: str) -> Unusable:
    def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
        for model in sorted({*tables.models, *tables.answering}):
            yield not_testable(name, tables.benchmark, model, reason)

    return Unusable(name, name, reason, find, claims=False)


def guarded(detector: Detector) -> Detector:
    """A detector of another package: where it fails there is a reason, and the others go on."""

    def failure(error: Exception) -> str:
        blame_the_machine(error)
        if isinstance(error, HeldoutError):
            raise error
        return f"{detector.name}, a detector of another package, failed ({type(error).__name__}: {error})"

    def find(tables: ScoreTables, settings: DetectSettings) -> list[Outcome]:
        try:
            return list(detector.find(tables, settings))
        except Exception as error:
            reason = failure(error)
        models = tables.models if detector.needs == "scores" else tables.answering
        return [not_testable(detector.name, tables.benchmark, model, reason) for model in models]

    def against(
        tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
    ) -> Difference | str:
        assert detector.against is not None
        try:
            return detector.against(tables, model, baseline, settings)
        except Exception as error:
            return failure(error)

    def score(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
        try:
            return detector.score(tables, scored, settings)
        except Exception as error:
            return failure(error)

    return replace(
        detector,
        find=find,
        against=against if detector.against is not None else None,
        item_scores=score if detector.item_scores is not None else None,
    )


def run_detectors(
    tables: ScoreTables, names: Sequence[str] = (), settings: DetectSettings | None = None
) -> tuple[list[Outcome], dict[str, list[SelfCheck]]]:
    """Outcomes of the named detectors (all if none is named), and every model's self-checks."""
    chosen = settings or DetectSettings()
    known = detectors()
    for name in names:
        if name not in known:
            raise InputError(f"there is no detector '{name}'; {nearest_name(name, list(known))}")
        if isinstance(known[name], Unusable):
            continue
        if TWIN_SCORES in known[name].also and not tables.answering:
            raise InputError(
                f"{name} reads answers or scores of twins, and this run has none: run heldout ask, or heldout score "
                f"--variants twin=…, first"
            )
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
    if any(Need.UNSEEN in known[name].requires for name in names or known):
        _check_unseen(tables.items, chosen)
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
        if not recorded_for[known[name].needs] and not isinstance(known[name], Unusable):
            continue
        # Answers count even if the model's scores failed their checks.
        for model, reason in broken.items() if known[name].needs == "scores" else ():
            message = f"a self-check of its scores failed: {reason}"
            outcomes.append(not_testable(name, tables.benchmark, model, message))
        outcomes += _outcomes(known[name], sound, chosen)
    return outcomes, checks


def _check_unseen(items: pl.DataFrame, settings: DetectSettings) -> None:
    """Refuse a field by which the benchmark has no unseen items, or no others. A model may have scored or answered
    one kind alone: that is no mistake in the settings."""
    if settings.unseen is None:
        return
    field, wanted = settings.unseen
    mask = unseen_items(ModelScores("", items), settings)
    if not mask.any() or mask.all():
        values = metadata_column(items, field)
        present = sorted({value for value in values if value is not None})[:8]
        raise InputError(
            f"unseen {field}={wanted}: {int(mask.sum()):,} of {len(mask):,} items have it, and both "
            f"kinds are needed; values of '{field}' are {', '.join(present) or 'not there'}"
        )


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
    image_membership.DETECTOR,
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


# Which detectors an endpoint's log-probabilities support, and what the others lack.


#: the setting ``variants`` of ask, for what detectors read
_ASKED = {
    "twin|twin-*": "twin=TWINS",
    "shuffle-*|rotation-[!0]*": "shuffle-1..3",
    "rotation-[!0]*": "rotation-all",
    "slot-*": "slot-paraphrase",
    "ngram-*": "ngram-paraphrase",
}


class DetectorSupport(NamedTuple):
    detector: str
    enabled: bool
    reason: str
    variants: tuple[str, ...] = ()  # of items that have to be asked, as the setting takes them


def supported_detectors(can: Capabilities) -> list[DetectorSupport]:
    """Every detector that reads scores; those that read answers need none (``answer_detectors``).

    Args:
        can: What the endpoint can do.
    """
    return [
        _support(detector, can) for detector in detectors().values() if detector.needs == "scores"
    ]


def answer_detectors() -> list[DetectorSupport]:
    """Every detector that reads answers: any endpoint that replies will do; ``reason`` is what to ask for."""
    return [
        DetectorSupport(detector.name, True, ", ".join(_asked(detector)), _variants(detector))
        for detector in detectors().values()
        if detector.needs == "answers"
    ]


def _asked(detector: Detector) -> list[str]:
    """Variants, and what else is needed."""
    return [*_variants(detector), *(need.value for need in Need if need in detector.requires)]


def _variants(detector: Detector) -> tuple[str, ...]:
    """As the setting ``variants`` takes them."""
    return tuple(_ASKED.get(entry, entry) for entry in detector.variants)


def _support(detector: Detector, can: Capabilities) -> DetectorSupport:
    if detector.of == "benchmark":
        return DetectorSupport(detector.name, True, "needs no model")
    if Need.VOCABULARY in detector.requires:
        return DetectorSupport(
            detector.name,
            False,
            f"needs {Need.VOCABULARY.value}, which no endpoint gives: score a local copy of the model",
        )
    if Need.DOCUMENTS in detector.requires:
        plain = can.completions
        reason = (
            "text documents, without pictures" if plain.works else f"plain text: {plain.reason}"
        )
        return DetectorSupport(detector.name, plain.works, reason)
    more = [need.value for need in Need if need in detector.requires]
    if detector.of == "pair":
        more.append("two models with scores")
    reason = "; also needs ".join([_answers(can), *more[:1]]) + "".join(
        f" and {need}" for need in more[1:]
    )
    return DetectorSupport(detector.name, can.chat.works or can.completions.works, reason)


def _answers(can: Capabilities) -> str:
    if can.chat.works and can.images.works:
        return "answers after picture and question"
    if can.chat.works:
        return f"text-only benchmarks alone: pictures: {can.images.reason}"
    if can.completions.works:
        return "text-only benchmarks alone, as plain documents without the model's chat template"
    return f"no log-probabilities of answers: {can.chat.reason}"
