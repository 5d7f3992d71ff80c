"""Captions: a picture described in one sentence, as the alt text of a web corpus would."""

from __future__ import annotations

import numpy as np

from heldout.scenes.films import Film
from heldout.scenes.world import Scene, SceneObject, pick

_OPENINGS = ("", "", "A picture of ", "Drawing of ", "Illustration: ")
_FILM_OPENINGS = ("", "Radiograph of the ", "Plain film, ", "Case of the day: ")


def caption(scene: Scene, rng: np.random.Generator) -> str:
    """One true sentence; which objects it names and how it begins are drawn."""
    count = int(rng.integers(2, len(scene.objects) + 1))
    chosen = [scene.objects[index] for index in sorted(rng.permutation(len(scene.objects))[:count])]
    words = [_noun(item) for item in chosen]
    listed = f"{', '.join(words[:-1])} and {words[-1]}"
    sentence = f"{pick(rng, _OPENINGS)}{listed} on a {scene.background.tone} background."
    return sentence[0].upper() + sentence[1:]


def film_caption(film: Film, rng: np.random.Generator) -> str:
    """What a teaching file says under a film; findings are named, the patient is not."""
    findings = [f"{one.kind} in the {one.zone}" for one in film.lesions]
    findings += [f"enlarged {film.enlarged}"] if film.enlarged else []
    findings += [f"{film.device} in place"] if film.device else []
    listed = ", ".join(findings[place] for place in rng.permutation(len(findings)).tolist())
    sentence = f"{pick(rng, _FILM_OPENINGS)}{film.view}: {listed or 'no finding'}."
    return sentence[0].upper() + sentence[1:]


def _noun(item: SceneObject) -> str:
    size = "" if item.size == "medium" else item.size
    texture = "" if item.texture == "plain" else item.texture
    words = " ".join(filter(None, (size, texture, item.colour, item.shape)))
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
