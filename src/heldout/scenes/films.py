"""A second world: grey films of imaginary patients, with organs, lesions, devices and a side marker.

As on real films, the patient's left is on the picture's right. Two films of one view differ first in
whose they are: anatomy, exposure and grain come from the patient, everything that is asked does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heldout.scenes.world import pick

VIEWS = ("chest", "abdomen", "head")
ORGANS: dict[str, tuple[str, ...]] = {  # what may be enlarged in each view
    "chest": ("heart", "aorta"),
    "abdomen": ("liver", "spleen"),
    "head": ("ventricles", "sinus"),
}
LESIONS = ("nodule", "cavity", "shadow")
SIDES, LEVELS = ("left", "right"), ("upper", "lower")
ZONES = tuple(f"{side} {level} zone" for side in SIDES for level in LEVELS)
DEVICES = ("pacemaker", "tube", "clip")
MARKERS = ("L", "R")
FILM_ATTRIBUTES = ("lesion", "zone", "organ", "device", "marker")
PATIENTS = 2**31


@dataclass(frozen=True, slots=True)
class Lesion:
    kind: str
    zone: str


@dataclass(frozen=True, slots=True)
class Film:
    view: str
    patient: int
    marker: str
    lesions: tuple[Lesion, ...]  # at most one per zone
    enlarged: str | None = None
    device: str | None = None


def random_film(rng: np.random.Generator) -> Film:
    view = pick(rng, VIEWS)
    zones = rng.permutation(len(ZONES))[: int(rng.integers(0, len(ZONES) + 1))]
    lesions = tuple(Lesion(pick(rng, LESIONS), ZONES[zone]) for zone in sorted(zones.tolist()))
    enlarged = pick(rng, ORGANS[view]) if rng.random() < 0.6 else None
    device = pick(rng, DEVICES) if rng.random() < 0.6 else None
    return Film(view, int(rng.integers(PATIENTS)), pick(rng, MARKERS), lesions, enlarged, device)


def other_patient(film: Film, rng: np.random.Generator) -> Film:
    """The same view and findings in somebody else: near in every embedding, and not a copy."""
    return replace(film, patient=int(rng.integers(PATIENTS)))


def vary_film(film: Film, rng: np.random.Generator, attribute: str | None = None) -> Film:
    """The same patient with exactly one thing changed; ValueError where this one cannot."""
    wanted = [attribute] if attribute is not None else list(FILM_ATTRIBUTES)
    for place in rng.permutation(len(wanted)):
        changed = _changed(film, wanted[place], rng)
        if changed is not None:
            return changed
    raise ValueError(f"this film cannot change its {attribute}")


def _changed(film: Film, attribute: str, rng: np.random.Generator) -> Film | None:
    if attribute == "marker":
        return replace(film, marker="L" if film.marker == "R" else "R")
    if attribute == "device":
        return replace(film, device=pick(rng, [d for d in (None, *DEVICES) if d != film.device]))
    if attribute == "organ":
        others = [one for one in (None, *ORGANS[film.view]) if one != film.enlarged]
        return replace(film, enlarged=pick(rng, others))
    if attribute == "lesion":  # one turns into another kind, comes or goes
        zone = pick(rng, ZONES)
        found = next((one.kind for one in film.lesions if one.zone == zone), None)
        kind = pick(rng, [one for one in (None, *LESIONS) if one != found])
        kept = [one for one in film.lesions if one.zone != zone]
        return _with(film, kept if kind is None else [*kept, Lesion(kind, zone)])
    if attribute == "zone":
        taken = {one.zone for one in film.lesions}
        free = [zone for zone in ZONES if zone not in taken]
        if not free or not film.lesions:
            return None
        moved = pick(rng, film.lesions)
        kept = [one for one in film.lesions if one != moved]
        return _with(film, [*kept, Lesion(moved.kind, pick(rng, free))])
    raise ValueError(f"'{attribute}' is not an attribute of a film: {', '.join(FILM_ATTRIBUTES)}")


def _with(film: Film, lesions: list[Lesion]) -> Film:
    return replace(film, lesions=tuple(sorted(lesions, key=lambda one: ZONES.index(one.zone))))
