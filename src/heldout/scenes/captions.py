"""Captions: a picture described in one sentence, as the alt text of a web corpus would."""

from __future__ import annotations

import re

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
    findings = [f"{lesion.kind} in the {lesion.zone}" for lesion in film.lesions]
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


# The same question in other words, for contamination that no string match finds.


_RULES = (
    (r"What colour is the (.+)\?", r"Tell me the colour of the \1."),
    (r"What is the shape of the (.+)\?", r"The \1 has which shape?"),
    (r"Which texture does the (.+) have\?", r"The surface of the \1 looks how?"),
    (r"How many (.+) are there\?", r"Count the \1."),
    (r"Is there (an?) (.+) in the picture\?", r"Does the picture show \1 \2?"),
    (r"Where is the (.+) relative to the (.+)\?", r"Seen from the \2, where does the \1 lie?"),
    (r"Is the (.+) larger than the (.+)\?", r"Is the \2 smaller than the \1?"),
    (
        r"Which shape is closest to the (.+) edge of the picture\?",
        r"Nearest to the \1 edge lies what?",
    ),
    (r"Which part of the body does this film show\?", r"What body part was exposed here?"),
    (r"Which side marker does the film carry\?", r"Which letter marks the side?"),
    (r"Which organ is enlarged\?", r"Name the organ that is too large."),
    (r"Which device is visible\?", r"Name the device in this film."),
    (r"Where is the (.+)\?", r"In which place does the \1 lie?"),
    (r"What is in the (.+)\?", r"Name what lies in the \1."),
    (r"Is there a (.+) on the (.+) side\?", r"Does the \2 side show a \1?"),
    (r"Is a (.+) visible\?", r"Can a \1 be seen?"),
    (r"Is the (.+) (\w+)\?", r"Would you call the \1 \2?"),
)


def paraphrased(question: str) -> str:
    """By rule where the worlds' questions are known, by a polite opening where they are not."""
    for pattern, other in _RULES:
        match = re.fullmatch(pattern, question)
        if match is not None:
            return match.expand(other)
    words = question.strip()
    return f"Please look and tell: {words[:1].lower()}{words[1:]}"
