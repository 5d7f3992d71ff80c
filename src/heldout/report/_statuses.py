"""A status as people read it: its plain name, the stored value beside it, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from heldout.detect import detectors
from heldout.errors import percent
from heldout.store import Run
from heldout.verdict import PLAIN

MEANINGS = {
    "survives": "evidence was found, and it passed all required controls",
    "qualified": "neither confirmed nor ruled out: a control is missing, or failed without showing another cause",
    "re-attributed": "the effect is there, and something other than a leak explains it",
    "collapses": "models or pictures that cannot have seen the benchmark show the same effect",
    "clean": "no effect found; one of the stated size or larger would have been detected",
    "not testable": "no test was possible, and the claim says why; never a pass",
}

#: words of the pages that are explained where one points at them, and in a list
TERMS = {
    "same image": "equal bytes, equal pixels, or pictures that agree everywhere once they are aligned",
    "transformed copy": "the same picture cropped, turned, resized, recoloured or stored again: fine detail agrees "
    "once the two are aligned",
    "undecided": "it may be a copy, and the pictures do not show whether it is one: people have to look",
    "look-alike": "a similar picture that is no proven copy: another picture of the same subject or of "
    "another one, or a copy that could not be aligned",
    "unrelated": "a candidate of the search that shows something else",
    "no candidate": "no corpus picture is similar enough to be aligned with it",
    "group": "items that share a picture (or patient, where the benchmark names one). They are not independent, and "
    "intervals allow for that",
    "references": "models named as not having seen the benchmark; the model is compared with them",
    "twin": "the same question about a changed picture, with another right answer",
    "pixels-3": "heldout's own comparison of pictures, by which candidates are found: layout, edges and local detail",
    "interval": "95 % interval: what the share would be in benchmarks sampled like this one",
}


def tests_in_words(cells: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each test asks that a claim about a model rests on, by its name."""
    known = detectors()
    names = {
        claim["id"].partition("/")[0]
        for cell in cells
        if cell["model"] is not None
        for claim in cell["claims"]
    }
    return {name: known[name].summary for name in sorted(names) if name in known}


def plain_status(status: str, least: object = "") -> str:
    """``least``: the smallest effect that would have been detected, for what was tested and not found."""
    plain = PLAIN.get(status, status)
    if status != "clean" or not least:
        return str(plain)
    of = "" if "%" in str(least) else "an effect of "
    return f"{plain}; {of}{least} or more would have been detected"


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
    share_of: str  # clusters, of a corpus: items that share a picture, or items where none do; else nothing

    def __str__(self) -> str:
        return f"{percent(self.value)} of {self.share_of}" if self.share_of else f"{self.value:.2g}"


def detectable(run: Run) -> dict[str, DetectableEffect]:
    """Per claim of the run that found nothing: the effect that each of its tests would have detected."""
    findings: dict[str, dict[str, Any]] = {}
    for name in ("findings.json", "detections.json"):
        if (run.path / name).exists():
            findings |= {record["id"]: record for record in run.read_json(name)["findings"]}
    least = {}
    for claim in run.read_json("claims.json")["claims"]:
        mine = [findings[name] for name in claim["findings"] if name in findings]
        words = claim["id"].startswith("text/")
        # Of rewordings only some are found: no share of them can be promised.
        mine = [record for record in mine if not words or not record["id"].endswith("/embedding")]
        effects = [record["minimum_detectable_effect"] for record in mine]
        if claim["status"] == "clean" and effects and None not in effects:
            apart = all(record["n"] == record["clusters"] for record in mine)
            groups = "items" if apart else "picture groups"
            groups += f" ({_SAME_WORDS})" if words else ""
            share_of = groups if claim["cell"]["corpus"] is not None else ""
            least[claim["id"]] = DetectableEffect(max(effects), share_of)
    return least


_SAME_WORDS = "in nearly the same words"
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
    return ", ".join(
        effect if _SAME_WORDS in effect else f"{effect} ({' and '.join(names)})"
        for effect, names in effects.items()
    )
