"""Every look at a run's models, kept in its manifest: repeated tests have to be corrected for.

A look is a claim tested with some detectors, settings and data. The same again is no further look. The p of the
k-th look at a claim is multiplied by k², so that all looks together err at most 1.65 times as often as the first
one may; claims that only an earlier call made are corrected for like those of this one. A look that lacked a
control could not have confirmed a claim and does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from heldout.errors import counted
from heldout.store import Run

if TYPE_CHECKING:
    from heldout.verdict.examine import DetectorOutcomes, Examination

SECTION = "looks"
_DESCRIBES = ("families", "category")  # settings that change no p


class EarlierLooks(NamedTuple):
    """By claim the number of the look that is made now, and p of the claims of earlier calls alone."""

    number: Mapping[str, int]
    others: tuple[float, ...]

    @property
    def repeated(self) -> dict[str, int]:
        """The claims that were tested before, and the number of the present look at each."""
        return {key: number for key, number in self.number.items() if number > 1}

    @property
    def sentence(self) -> str:
        """What the p-values were corrected for; empty if nobody looked before."""
        factors = sorted({number**2 for number in self.repeated.values()})
        parts = []
        if factors:
            claims = counted(len(self.repeated), "claim was", "claims were")
            by = " or ".join(f"{factor}" for factor in factors)
            parts.append(f"{claims} tested before, so that the corrected p is multiplied by {by}")
        if self.others:
            claims = counted(len(self.others), "claim", "claims")
            parts.append(f"the correction also counts {claims} of earlier calls")
        return f"{'; '.join(parts)} (manifest.json lists the looks)" if parts else ""

    def as_json(self) -> dict[str, Any]:
        return {"number": self.repeated, "other_claims": len(self.others), "note": self.sentence}


NONE = EarlierLooks({}, ())


def earlier_looks(run: Run, looked: DetectorOutcomes) -> EarlierLooks:
    known = run.manifest().get(SECTION, {})
    number = {}
    for key in looked.groups:
        mine = fingerprint(looked, key)
        before = [
            entry["fingerprint"]
            for entry in known.get(key, [])
            if entry["counts"] and entry["fingerprint"] != mine
        ]
        number[key] = len(set(before)) + 1
    alone = [known[key] for key in known if key not in looked.groups]
    counted = [[entry["p"] for entry in looks if entry["counts"]] for looks in alone]
    return EarlierLooks(number, tuple(min(values) for values in counted if values))


def record_looks(run: Run, looked: DetectorOutcomes, examination: Examination) -> None:
    """Record ``looked`` and its result; a look that was recorded before is not recorded again."""
    known = run.manifest().get(SECTION, {})
    p_values = looked.p_values
    entries: dict[str, Any] = {}
    for claim in examination.claims:
        if claim.id not in looked.groups:
            continue
        mine = fingerprint(looked, claim.id)
        looks = list(known.get(claim.id, []))
        if not any(entry["fingerprint"] == mine for entry in looks):
            looks.append(
                {
                    "fingerprint": mine,
                    "detectors": sorted({f.detector for f in looked.groups[claim.id]}),
                    "baselines": list(looked.settings.baselines),
                    "p": p_values.get(claim.id, 1.0),
                    "status": claim.status,
                    "counts": all(control.outcome != "missing" for control in claim.controls),
                }
            )
        entries[claim.id] = looks
    if entries:
        run.update(SECTION, entries)


def fingerprint(looked: DetectorOutcomes, key: str) -> str:
    """Of detectors, settings and how much was recorded: what could change the claim's p."""
    settings = looked.settings.model_dump(mode="json", exclude=set(_DESCRIBES))
    tested = sorted([f.detector, f.id, f.n, f.clusters, f.effect.value] for f in looked.groups[key])
    content = json.dumps([settings, tested], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
