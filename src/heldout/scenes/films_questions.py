"""Questions about a film: what is asked of radiographs, with answers computed from the film."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heldout.scenes.films import DEVICES, LESIONS, MARKERS, ORGANS, SIDES, VIEWS, ZONES, Film
from heldout.scenes.probes import YES_NO
from heldout.scenes.world import pick

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
        found = next((p for p in candidates if _suits(p, style) and p.answer(film)), None)
        if found is None:
            continue
        candidates.remove(found)
        used[found.content_type] = used.get(found.content_type, 0) + 1
        asked.append(_question(found, film, style, rng))
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
        zones = [one.zone for one in film.lesions if one.kind == kind]
        return zones[0] if len(zones) == 1 else None

    return read


def _kind_in(zone: str) -> Callable[[Film], str | None]:
    return lambda film: next((one.kind for one in film.lesions if one.zone == zone), "nothing")


def _there(kind: str, side: str) -> Callable[[Film], str | None]:
    def read(film: Film) -> str | None:
        found = any(one.kind == kind and one.zone.startswith(side) for one in film.lesions)
        return "yes" if found else "no"

    return read


def _enlarged(organ: str) -> Callable[[Film], str | None]:
    """Whether an organ of another view is enlarged cannot be told."""
    return lambda film: (
        None if organ not in ORGANS[film.view] else "yes" if film.enlarged == organ else "no"
    )


def _carries(device: str) -> Callable[[Film], str | None]:
    return lambda film: "yes" if film.device == device else "no"
