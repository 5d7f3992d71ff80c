"""A second world: grey films of imaginary patients, with organs, lesions, devices and a side marker.

As on real films, the patient's left is on the picture's right. Two films of one view differ first by patient:
anatomy, exposure and grain come from the patient, everything that is asked does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

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
    """The same view and findings of another patient: near in every embedding, and not a copy."""
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
        others = [organ for organ in (None, *ORGANS[film.view]) if organ != film.enlarged]
        return replace(film, enlarged=pick(rng, others))
    if attribute == "lesion":  # one turns into another kind, comes or goes
        zone = pick(rng, ZONES)
        present = next((lesion.kind for lesion in film.lesions if lesion.zone == zone), None)
        kind = pick(
            rng, [lesion_kind for lesion_kind in (None, *LESIONS) if lesion_kind != present]
        )
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
    questions: list[FilmQuestion] = []
    used: dict[str, int] = {}
    for style in itertools.islice(itertools.cycle(_FORMATS), count):
        candidates.sort(key=lambda probe: used.get(probe.content_type, 0))
        candidate = next((p for p in candidates if _suits(p, style) and p.answer(film)), None)
        if candidate is None:
            continue
        candidates.remove(candidate)
        used[candidate.content_type] = used.get(candidate.content_type, 0) + 1
        questions.append(_question(candidate, film, style, rng))
    return [questions[place] for place in rng.permutation(len(questions))]


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
        present = any(
            lesion.kind == kind and lesion.zone.startswith(side) for lesion in film.lesions
        )
        return "yes" if present else "no"

    return read


def _enlarged(organ: str) -> Callable[[Film], str | None]:
    """It is not known whether an organ of another view is enlarged."""
    return lambda film: (
        None if organ not in ORGANS[film.view] else "yes" if film.enlarged == organ else "no"
    )


def _carries(device: str) -> Callable[[Film], str | None]:
    return lambda film: "yes" if film.device == device else "no"


# Expose a film: soft organs, ribs or skull, lesions, devices and the side marker, in grey.


Plane = NDArray[np.floating[Any]]
_EDGE = 0.02  # how soft a border is, as a share of the picture
# As on real films, some lesions are clear and some faint: the contrast of a lesion.
_CONSPICUOUS = (0.05, 0.45)
_MOTTLE = 12.0  # grey levels


class _Body:
    """Where things lie in one patient: a plane of co-ordinates, tilted, scaled and shifted."""

    def __init__(self, patient: int, size: int) -> None:
        self.rng = np.random.default_rng(patient)
        tilt, scale = self.rng.normal(0, 0.03), self.rng.normal(1.0, 0.035)
        shift_x, shift_y = self.rng.normal(0, 0.012, 2)
        axis = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
        x, y = axis[None, :] - shift_x, axis[:, None] - shift_y
        self.x = (x * math.cos(tilt) + y * math.sin(tilt)) / scale
        self.y = (y * math.cos(tilt) - x * math.sin(tilt)) / scale
        self.size = size
        self.film = np.zeros((size, size), dtype=np.float32)

    def near(self, value: float, spread: float = 0.05) -> float:
        return float(value * (1 + self.rng.normal(0, spread)))

    def oval(self, x: float, y: float, width: float, height: float, edge: float = _EDGE) -> Plane:
        # several times as fast as np.hypot, and nothing here overflows
        reach = np.sqrt(((self.x - x) / width) ** 2 + ((self.y - y) / height) ** 2)
        covered: Plane = np.clip(0.5 - (reach - 1) * min(width, height) / edge, 0, 1)
        return covered

    def add(self, mask: Plane, level: float) -> None:
        self.film += mask * np.float32(level)


def render_film(film: Film, size: int = 224) -> Image.Image:
    """The film as an RGB picture of three equal planes; same film, same pixels."""
    body = _Body(film.patient, size)
    {"chest": _chest, "abdomen": _abdomen, "head": _head}[film.view](body, film.enlarged)
    light = body.near(1.0, 0.08)
    for lesion in film.lesions:
        # Generators of their own: a lesion that comes or goes leaves every other pixel as it was.
        body.rng = np.random.default_rng((film.patient, 1 + ZONES.index(lesion.zone)))
        _lesion(body, film.view, lesion)
    grain = _grain(np.random.default_rng((film.patient, 101)), size)
    levels = np.clip(255 * (0.06 + light * np.clip(body.film, 0, 1.05)) + grain, 0, 255)
    picture = Image.fromarray(levels.astype(np.uint8))
    _draw(picture, film, np.random.default_rng((film.patient, 102)))
    return Image.merge("RGB", [picture] * 3)


def _chest(body: _Body, enlarged: str | None) -> None:
    body.add(body.oval(0, 0.08, body.near(0.46), body.near(0.56)), 0.42)
    for side in (-1, 1):
        lung = body.oval(side * body.near(0.2, 0.03), 0.0, body.near(0.155), body.near(0.3))
        body.add(lung, -0.3)
        bow = body.y + 0.5 * body.x**2
        ribs = np.clip(np.sin(bow * body.near(52, 0.03)) - 0.35, 0, 1)
        body.add(ribs * lung, 0.12)
    body.add(body.oval(0, 0.05, 0.035, 0.6), 0.24)
    grown = 1.55 if enlarged == "heart" else 1.0
    body.add(body.oval(0.06, 0.13, body.near(0.105) * grown, body.near(0.115) * grown), 0.26)
    arch = 0.075 if enlarged == "aorta" else 0.035
    body.add(body.oval(0.045, -0.15, body.near(arch), body.near(arch)), 0.3)


def _abdomen(body: _Body, enlarged: str | None) -> None:
    body.add(body.oval(0, 0.02, body.near(0.43), body.near(0.52)), 0.3)
    body.add(body.oval(0, 0.05, 0.045, 0.5), 0.25)
    grown = 1.4 if enlarged == "liver" else 1.0
    body.add(body.oval(-0.2, -0.24, body.near(0.15) * grown, body.near(0.1) * grown), 0.2)
    grown = 1.9 if enlarged == "spleen" else 1.0
    body.add(body.oval(0.27, -0.27, body.near(0.055) * grown, body.near(0.065) * grown), 0.24)
    for side in (-1, 1):
        body.add(body.oval(side * body.near(0.15), 0.02, 0.045, body.near(0.095)), 0.16)
    body.add(body.oval(-0.17, 0.4, 0.13, 0.09) + body.oval(0.17, 0.4, 0.13, 0.09), 0.2)


def _head(body: _Body, enlarged: str | None) -> None:
    width, height = body.near(0.36), body.near(0.44)
    body.add(body.oval(0, 0, width, height), 0.75)
    body.add(body.oval(0, 0, width * 0.9, height * 0.91), -0.42)
    body.add(body.oval(0, 0, 0.008, height * 0.85), 0.1)
    grown = 1.75 if enlarged == "ventricles" else 1.0
    for side in (-1, 1):
        width, height = body.near(0.032) * grown, body.near(0.09) * grown
        body.add(body.oval(side * 0.06, -0.02, width, height), -0.22)
    hollow = 0.085 if enlarged == "sinus" else 0.042
    body.add(body.oval(0, 0.3, body.near(hollow), body.near(hollow) * 0.8), -0.26)


_PLACES = {  # the middle of a zone, from the middle of the picture
    "chest": (0.21, 0.15),
    "abdomen": (0.25, 0.19),
    "head": (0.19, 0.19),
}


def _lesion(body: _Body, view: str, lesion: Lesion) -> None:
    side, level, _ = lesion.zone.split()
    across, down = _PLACES[view]
    x = across * (1 if side == "left" else -1) + body.rng.uniform(-0.03, 0.03)
    y = down * (-1 if level == "upper" else 1) + body.rng.uniform(-0.03, 0.03)
    seen = float(body.rng.uniform(*_CONSPICUOUS))
    if lesion.kind == "nodule":
        body.add(body.oval(x, y, body.near(0.042), body.near(0.042)), 0.5 * seen)
    elif lesion.kind == "cavity":
        radius = body.near(0.06)
        ring = body.oval(x, y, radius, radius) - body.oval(x, y, radius * 0.55, radius * 0.55)
        body.add(ring, 0.48 * seen)
    else:
        width, height = body.near(0.1), body.near(0.075)
        body.add(body.oval(x, y, width, height, edge=0.09), 0.3 * seen)


def _grain(rng: np.random.Generator, size: int) -> Plane:
    """Fine grain, and mottle of about a lesion's size: what makes the faint ones hard to tell."""
    grain: Plane = rng.normal(0, 3.5, (size, size)).astype(np.float32)
    for cells in (12, 22):
        coarse = Image.fromarray(rng.normal(0, _MOTTLE, (cells, cells)).astype(np.float32))
        grain = grain + np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC))
    return grain


def _draw(picture: Image.Image, film: Film, rng: np.random.Generator) -> None:
    """Metal and lead letters are brighter than any organ, and sharp."""
    draw, size = ImageDraw.Draw(picture), picture.width
    width = max(1, round(0.02 * size))

    def stroke(*points: tuple[float, float], thick: int = width) -> None:
        draw.line([(x * size, y * size) for x, y in points], fill=248, width=thick, joint="curve")

    shift = float(rng.uniform(-0.015, 0.015))
    # Each marker stands on its own side: L on the patient's left, the picture's right.
    x, y = (0.885 if film.marker == "L" else 0.055) + shift, 0.06 + shift
    if film.marker == "L":
        stroke((x, y), (x, y + 0.11), (x + 0.06, y + 0.11))
    else:
        stroke((x, y + 0.11), (x, y), (x + 0.055, y + 0.012), (x + 0.055, y + 0.05), (x, y + 0.058))
        stroke((x + 0.02, y + 0.058), (x + 0.062, y + 0.11))
    if film.device == "pacemaker":
        left, top = (0.74 + shift) * size, (0.2 + shift) * size
        draw.rectangle((left, top, left + 0.1 * size, top + 0.075 * size), fill=244)
        stroke((0.74 + shift, 0.26), (0.62, 0.36), (0.58, 0.6), thick=max(1, width // 2))
    elif film.device == "tube":
        x = 0.495 + shift
        stroke((x, 0.0), (x, 0.3), (x + 0.012, 0.52), thick=max(1, width // 2 + 1))
    elif film.device == "clip":
        x, y = 0.42 + shift, 0.86 + shift
        stroke((x, y), (x + 0.05, y + 0.06))
        stroke((x + 0.05, y), (x, y + 0.06))
