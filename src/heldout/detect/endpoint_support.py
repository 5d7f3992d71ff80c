"""Which detectors an endpoint's log-probabilities support, and what the others lack."""

from __future__ import annotations

from typing import NamedTuple

from heldout.detect.detector import Detector, Need
from heldout.detect.registry import detectors
from heldout.model import Capabilities

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
        DetectorSupport(detector.name, True, ", ".join(_asked(detector)))
        for detector in detectors().values()
        if detector.needs == "answers"
    ]


def _asked(detector: Detector) -> list[str]:
    """Variants as the setting ``variants`` takes them, and what else is needed."""
    wanted = [_ASKED.get(entry, entry) for entry in detector.variants]
    return [*wanted, *(need.value for need in Need if need in detector.requires)]


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
