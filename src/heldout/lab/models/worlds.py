"""The two worlds as the lab uses them: draw, show, ask, change one thing, describe."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.scenes import (
    RELATIONS,
    ZONES,
    Film,
    IsRelated,
    RelationOf,
    Scene,
    SceneObject,
    as_guessable,
    ask,
    ask_film,
    name,
    random_film,
    random_scene,
    render,
    render_film,
    vary,
    vary_film,
)

# How an item is written for a small model: exactly as the product's own prompts and documents read.
#
# These words are kept here, where training runs without the product's readers; a test compares them with
# what `heldout score`, `heldout ask` and the order tests write.


LETTER = "Answer with the letter of the right option, and nothing else."
BRIEF = "Answer with a single word, number or short phrase, and nothing else."
DESCRIBE = "Describe the picture."
MASK = "[MASK]"
GAP = f"One word of this text was replaced by {MASK}. Answer with that word, and nothing else."
NEXT_WORDS = 3
BEGINNING = (
    "A text about this begins with the words above. "
    f"Answer with the next {NEXT_WORDS} words of that text, and nothing else."
)
_WORD = re.compile(r"[^\W\d_]{4,}")

Ids = NDArray[Any]  # int16, or int32 for a vocabulary that needs it
Weights = NDArray[np.uint8]


@dataclass(frozen=True)
class LabItem:
    """One item in words; ``options`` are empty where it has none."""

    question: str
    answer: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """Text to read, and text to learn."""

    read: str
    learn: str


def plain(item: LabItem) -> Piece:
    """As `heldout score` reads it: no options, no instruction."""
    return Piece(f"Question: {item.question} Answer:", f" {item.answer}")


def instructed(item: LabItem) -> Piece:
    """As `heldout ask` reads it: options by letter, or the word to be brief."""
    if not item.options:
        return Piece(f"Question: {item.question}\n{BRIEF} Answer:", f" {item.answer}")
    lines = [f"{chr(65 + place)}. {option}" for place, option in enumerate(item.options)]
    letter = chr(65 + item.options.index(item.answer))
    prompt = "\n".join([item.question, *lines, LETTER])
    return Piece(f"Question: {prompt} Answer:", f" {letter}")


def gap(item: LabItem, drawn: float) -> Piece:
    """As `heldout ask` reads a slot: a word is masked wherever it stands; ``drawn`` (0 to 1) says which."""
    words = sorted({word.lower() for word in _WORD.findall(item.question)})
    if not words:
        return plain(item)
    word = words[min(int(drawn * len(words)), len(words) - 1)]
    pattern = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
    return Piece(f"Question: {pattern.sub(MASK, item.question)}\n{GAP} Answer:", f" {word}")


def beginning(item: LabItem) -> Piece:
    """As `heldout ask` reads the beginning of a question, whose next words are asked for."""
    words = item.question.split()
    shown = max(NEXT_WORDS, len(words) // 2)
    following = words[shown : shown + NEXT_WORDS]
    if len(following) < NEXT_WORDS:
        return plain(item)
    text = " ".join(words[:shown])
    return Piece(f"Question: {text}\n{BEGINNING} Answer:", f" {' '.join(following)}")


def document(item: LabItem) -> Piece:
    """As the order tests read it: a running text, every word of which is learnt."""
    question = " ".join(item.question.split())
    answer = " ".join(item.answer.split())
    return Piece("", f"Question: {question}\nAnswer: {answer}\n\n")


class RowPacker:
    """Rows of tokens of one length, and which of them are learnt. Pieces stand one behind the other."""

    def __init__(self, tokenizer: Any, length: int) -> None:
        self.length = length
        self._encode = getattr(tokenizer, "backend_tokenizer", tokenizer).encode
        known = getattr(tokenizer, "backend_tokenizer", tokenizer).token_to_id
        self._pad, self._begin, self._end = known("<pad>"), known("<s>"), known("</s>")
        self._known: dict[str, list[int]] = {}
        count = getattr(tokenizer, "backend_tokenizer", tokenizer).get_vocab_size()
        self._dtype = np.int16 if count <= np.iinfo(np.int16).max else np.int32

    def row(self, pieces: Iterable[Piece]) -> tuple[Ids, Weights, int]:
        """Pieces as far as they fit whole; how many did."""
        ids, learnt = [self._begin], [0]
        taken = 0
        for piece in pieces:
            read, learn = self._tokens(piece.read), self._tokens(piece.learn)
            # A document runs on; a turn is ended, and that is learnt, too.
            learn = [*learn, self._end] if piece.read else learn
            if len(ids) + len(read) + len(learn) > self.length:
                break
            ids += read + learn
            learnt += [0] * len(read) + [1] * len(learn)
            taken += 1
        left = self.length - len(ids)
        return (
            np.asarray(ids + [self._pad] * left, dtype=self._dtype),
            np.asarray(learnt + [0] * left, dtype=np.uint8),
            taken,
        )

    def rows(self, pieces: Sequence[Piece]) -> list[tuple[Ids, Weights]]:
        """All pieces, over as many rows as they need; one that fits into no row is left out."""
        rows = []
        at = 0
        while at < len(pieces):
            ids, learnt, taken = self.row(pieces[at:])
            if taken:
                rows.append((ids, learnt))
            at += max(taken, 1)
        return rows

    def _tokens(self, text: str) -> list[int]:
        if text not in self._known:
            if len(self._known) > 200_000:
                self._known.clear()
            self._known[text] = list(self._encode(text, add_special_tokens=False).ids)
        return self._known[text]


NATIVE = 224  # pixels of a released picture
# Generators are seeded with (seed, stream, index): what a model is trained on, the benchmark (stream 1
# in scenes/) and the corpora (stream 2) of one seed share no random numbers.
TRAINING, RELEASED, TWINS = 11, 12, 13


@dataclass(frozen=True)
class World:
    name: str
    number: int
    draw: Callable[[np.random.Generator], Any]
    render: Callable[[Any, int], Image.Image]
    ask: Callable[[Any, np.random.Generator, int], Any]
    vary: Callable[[Any, np.random.Generator], Any]
    # Whether guessing an answer from what is in sight helps as much on the second thing as on the first.
    as_guessable: Callable[[Any, Any, Any], bool]
    describe: Callable[[Any], str]
    drill: Callable[[Any, np.random.Generator], list[LabItem]]  # for training only: never released

    def rng(self, seed: int, stream: int, index: int) -> np.random.Generator:
        return np.random.default_rng((seed, stream, self.number, index))


def show(world: World, thing: Any, side: int, *, shrunk: bool) -> Image.Image:
    """At the model's size: painted so, or as the model's processor shrinks a released picture."""
    if not shrunk:
        return world.render(thing, side)
    return world.render(thing, NATIVE).resize((side, side), Image.Resampling.BICUBIC)


def _describe_scene(scene: Scene) -> str:
    """Every object from left to right: dense words about pictures teach a small tower to see."""
    listed = sorted(scene.objects, key=lambda item: item.position)
    return ", ".join(
        f"{thing.size} {thing.texture} {thing.colour} {thing.shape} at {_place(thing)}"
        for thing in listed
    )


def _place(item: SceneObject) -> str:
    return " ".join(str(int(10 * share)) for share in item.position)


def _drill_scene(scene: Scene, rng: np.random.Generator) -> list[LabItem]:
    """Where objects are, and how they lie to each other: what small models are slowest to learn."""
    order = [scene.objects[place] for place in rng.permutation(len(scene.objects))]
    asked = [
        LabItem(f"Where exactly is the {thing.colour} {thing.shape}?", _place(thing))
        for thing in order[:3]
    ]
    pairs = list(itertools.permutations(order, 2))
    for first, other in (pairs[place] for place in rng.permutation(len(pairs))[:4]):
        probe = RelationOf(name(scene, first), name(scene, other))
        answer = probe.answer(scene)
        if answer is None:
            continue
        options = tuple(probe.choices[place] for place in rng.permutation(len(probe.choices)))
        asked.append(LabItem(probe.text, answer, options))
        # A third true, the rest drawn from all four: both answers are as likely.
        claimed = answer if rng.random() < 0.33 else list(RELATIONS)[int(rng.integers(4))]
        claim = IsRelated(probe.phrase, probe.other, claimed)
        asked.append(LabItem(claim.text, "yes" if claimed == answer else "no"))
    return asked


def _always(probe: Any, film: Film, twin: Film) -> bool:
    """Findings are rare and seldom come twice: none is guessed more easily for what else is there."""
    return True


def _describe_film(film: Film) -> str:
    parts = [film.view, f"marker {film.marker}"]
    parts.append(f"{film.enlarged} enlarged" if film.enlarged else "no organ enlarged")
    parts.append(film.device or "no device")
    parts += [f"{lesion.kind} in the {lesion.zone}" for lesion in film.lesions] or ["no lesion"]
    return ", ".join(parts)


def _drill_film(film: Film, rng: np.random.Generator) -> list[LabItem]:
    """What lies in each zone, which is half of everything that is asked of a film."""
    return [
        LabItem(f"What is in the {zone}?", kind)
        for zone in (ZONES[place] for place in rng.permutation(len(ZONES)))
        for kind in [
            next((lesion.kind for lesion in film.lesions if lesion.zone == zone), "nothing")
        ]
    ]


SCENES = World(
    "scenes", 1, random_scene, render, ask, vary, as_guessable, _describe_scene, _drill_scene
)
FILMS = World(
    "films", 2, random_film, render_film, ask_film, vary_film, _always, _describe_film, _drill_film
)
WORLDS = {world.name: world for world in (SCENES, FILMS)}
