"""A status as people read it: its plain name, the stored value beside it, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from heldout.errors import percent
from heldout.store import Run
from heldout.verdict import PLAIN

MEANINGS = {
    "survives": "passed all required controls; the search may still have missed more",
    "qualified": "neither confirmed nor ruled out: a control is missing, or one failed without explaining it",
    "re-attributed": "the effect is there, and something other than a leak explains it",
    "collapses": "models or pictures that cannot have seen the benchmark show the same effect",
    "clean": "no effect found; one of the stated size or larger would have been detected",
    "not testable": "no test was possible, and the claim says why; never a pass",
}


def plain_status(status: str, least: object = "") -> str:
    """``least``: the smallest effect that would have been detected, for what was tested and not found."""
    plain = PLAIN.get(status, status)
    return f"{plain} down to {least}" if status == "clean" and least else str(plain)


def status_words(status: str, least: object = "") -> str:
    """For text: the plain name, and the stored value where it is another word."""
    plain = plain_status(status, least)
    return plain if plain == status else f"{plain} ({status})"


def status_pill(status: str, least: object = "") -> Markup:
    """The plain name, explained where one points at it, and the stored value where it is another word."""
    pill = Markup('<abbr class="pill" title="{}">{}</abbr>').format(
        MEANINGS.get(status, ""), plain_status(status, least)
    )
    if PLAIN.get(status) == status:
        return pill
    return pill + Markup(' <span class="stored">({})</span>').format(status)


class DetectableEffect(NamedTuple):
    """The smallest effect that a test would have detected."""

    value: float
    of_corpus: bool  # then a share of clusters

    def __str__(self) -> str:
        return f"{percent(self.value)} of clusters" if self.of_corpus else f"{self.value:.2g}"


def detectable(run: Run) -> dict[str, DetectableEffect]:
    """Per claim of the run that found nothing: the effect that each of its tests would have detected."""
    findings: dict[str, dict[str, Any]] = {}
    for name in ("findings.json", "detections.json"):
        if (run.path / name).exists():
            findings |= {record["id"]: record for record in run.read_json(name)["findings"]}
    least = {}
    for claim in run.read_json("claims.json")["claims"]:
        mine = [findings[name] for name in claim["findings"] if name in findings]
        effects = [record["minimum_detectable_effect"] for record in mine]
        if claim["status"] == "clean" and effects and None not in effects:
            of_corpus = claim["cell"]["corpus"] is not None
            least[claim["id"]] = DetectableEffect(max(effects), of_corpus)
    return least


_TESTS = {"overlap": "pictures", "text": "words"}


def least_of(claims: Sequence[Mapping[str, Any]], least: Mapping[str, DetectableEffect]) -> str:
    """The effect that would have been detected, of each test by itself where they differ: a drop is no margin."""
    if not claims or any(claim["id"] not in least for claim in claims):
        return ""
    effects: dict[str, list[str]] = {}
    for claim in claims:
        family = claim["id"].partition("/")[0]
        effects.setdefault(str(least[claim["id"]]), []).append(_TESTS.get(family, family))
    if len(effects) == 1:
        return next(iter(effects))
    return ", ".join(f"{effect} ({' and '.join(names)})" for effect, names in effects.items())
