"""A second world: grey films of imaginary patients, with organs, lesions, devices and a side marker.

As on real films, the patient's left is on the picture's right. Two films of one view differ first in
whose they are: anatomy, exposure and grain come from the patient, everything that is asked does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from heldout.scenes.probes import YES_NO
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
        found = next((lesion.kind for lesion in film.lesions if lesion.zone == zone), None)
        kind = pick(rng, [one for one in (None, *LESIONS) if one != found])
        kept = [lesion for lesion in film.lesions if lesion.zone != zone]
        return _with(film, kept if kind is None else [*kept, Lesion(kind, zone)])
    if attribute == "zone":
        taken = {lesion.zone for lesion in film.lesions}
        free = [zone for zone in ZONES if zone not in taken]
        if not free or not film.lesions:
            return None
        moved = pick(rng, film.lesions)
        kept = [lesion for lesion in film.lesions if lesion != moved]
        return _with(film, [*kept, Lesion(moved.kind, pick(rng, free))])
    raise ValueError(f"'{attribute}' is not an attribute of a film: {', '.join(FILM_ATTRIBUTES)}")


def _with(film: Film, lesions: list[Lesion]) -> Film:
    return replace(
        film, lesions=tuple(sorted(lesions, key=lambda lesion: ZONES.index(lesion.zone)))
    )


# Questions about a film: what is asked of radiographs, with answers computed from the film.


_FORMATS = ("choice", "yes/no", "open", "choice", "yes/no", "open")
_ALL_ORGANS = tuple(itertools.chain.from_iterable(ORGANS.values()))


@dataclass(frozen=True, slots=True)
class FilmProbe:
    """One thing to ask, and how the answer is read off a film; None where it has none."""

    content_type: str
    text: str
    choices: tuple[str, ...]
    read: Callable[[Film], str | None]

    def answer(self, film: Film) -> str | None:
        return self.read(film)


@dataclass(frozen=True, slots=True)
class FilmQuestion:
    question: str
    options: tuple[str, ...]
    answer: str
    answer_type: str
    content_type: str
    probe: FilmProbe


def ask_film(film: Film, rng: np.random.Generator, count: int = 5) -> list[FilmQuestion]:
    """Up to ``count`` questions about different facts, of mixed formats and types, in drawn order."""
    candidates = list(_probes(film, rng))
    candidates = [candidates[place] for place in rng.permutation(len(candidates))]
    asked: list[FilmQuestion] = []
    used: dict[str, int] = {}
    for style in itertools.islice(itertools.cycle(_FORMATS), count):
        candidates.sort(key=lambda probe: used.get(probe.content_type, 0))
        candidate = next((p for p in candidates if _suits(p, style) and p.answer(film)), None)
        if candidate is None:
            continue
        candidates.remove(candidate)
        used[candidate.content_type] = used.get(candidate.content_type, 0) + 1
        asked.append(_question(candidate, film, style, rng))
    return [asked[place] for place in rng.permutation(len(asked))]


def _question(probe: FilmProbe, film: Film, style: str, rng: np.random.Generator) -> FilmQuestion:
    answer = probe.answer(film)
    assert answer is not None  # ask_film() takes no other
    options: tuple[str, ...] = ()
    if style == "choice":
        wrong = [choice for choice in probe.choices if choice != answer]
        drawn = [answer, *(wrong[place] for place in rng.permutation(len(wrong))[:3])]
        options = tuple(drawn[place] for place in rng.permutation(len(drawn)))
    kind = "OPEN" if style == "open" else "CLOSED"
    return FilmQuestion(probe.text, options, answer, kind, probe.content_type, probe)


def _suits(probe: FilmProbe, style: str) -> bool:
    return (probe.choices == YES_NO) == (style == "yes/no")


def _probes(film: Film, rng: np.random.Generator) -> Iterator[FilmProbe]:
    yield FilmProbe("view", "Which part of the body does this film show?", VIEWS, lambda f: f.view)
    yield FilmProbe("marker", "Which side marker does the film carry?", MARKERS, lambda f: f.marker)
    yield FilmProbe("count", "How many lesions are there?", tuple("01234"), _count)
    organs = (*_ALL_ORGANS, "none")
    yield FilmProbe("organ", "Which organ is enlarged?", organs, lambda f: f.enlarged or "none")
    devices = (*DEVICES, "none")
    yield FilmProbe("device", "Which device is visible?", devices, lambda f: f.device or "none")
    for kind in LESIONS:
        yield FilmProbe("zone", f"Where is the {kind}?", ZONES, _only(kind))
    for zone in ZONES:
        yield FilmProbe("lesion", f"What is in the {zone}?", (*LESIONS, "nothing"), _kind_in(zone))
    yield from _yes_no(film, rng)


def _yes_no(film: Film, rng: np.random.Generator) -> Iterator[FilmProbe]:
    """Drawn so that both answers are about as likely."""
    for kind, side in itertools.product(LESIONS, SIDES):
        if _there(kind, side)(film) == "yes" or rng.random() < 0.4:
            text = f"Is there a {kind} on the {side} side?"
            yield FilmProbe("lesion", text, YES_NO, _there(kind, side))
    organ = film.enlarged if film.enlarged and rng.random() < 0.7 else pick(rng, ORGANS[film.view])
    yield FilmProbe("organ", f"Is the {organ} enlarged?", YES_NO, _enlarged(organ))
    device = film.device if film.device and rng.random() < 0.7 else pick(rng, DEVICES)
    yield FilmProbe("device", f"Is a {device} visible?", YES_NO, _carries(device))


def _count(film: Film) -> str:
    return str(len(film.lesions))


def _only(kind: str) -> Callable[[Film], str | None]:
    def read(film: Film) -> str | None:
        zones = [lesion.zone for lesion in film.lesions if lesion.kind == kind]
        return zones[0] if len(zones) == 1 else None

    return read


def _kind_in(zone: str) -> Callable[[Film], str | None]:
    return lambda film: next(
        (lesion.kind for lesion in film.lesions if lesion.zone == zone), "nothing"
    )


def _there(kind: str, side: str) -> Callable[[Film], str | None]:
    def read(film: Film) -> str | None:
        found = any(lesion.kind == kind and lesion.zone.startswith(side) for lesion in film.lesions)
        return "yes" if found else "no"

    return read


def _enlarged(organ: str) -> Callable[[Film], str | None]:
    """Whether an organ of another view is enlarged cannot be told."""
    return lambda film: (
        None if organ not in ORGANS[film.view] else "yes" if film.enlarged == organ else "no"
    )


def _carries(device: str) -> Callable[[Film], str | None]:
    return lambda film: "yes" if film.device == device else "no"
