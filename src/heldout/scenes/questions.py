"""Questions about a scene: multiple choice, short open answers, yes or no; never ambiguous."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heldout.scenes import probes
from heldout.scenes.probes import (
    EDGES,
    RELATIONS,
    YES_NO,
    CountOf,
    IsRelated,
    Outermost,
    Phrase,
    RelationOf,
    SceneProbe,
)
from heldout.scenes.world import (
    COLOURS,
    SHAPES,
    Scene,
    SceneObject,
    one_attribute,
    one_move,
    one_object,
    pick,
    two_changes,
)

OPTIONS = 4
# Asked of every picture in this mix, so that closed and open questions are both well represented.
_FORMATS = ("choice", "yes/no", "open", "choice", "yes/no", "open")


@dataclass(frozen=True, slots=True)
class SceneQuestion:
    question: str
    options: tuple[str, ...]  # empty for open and for yes/no questions
    answer: str
    answer_type: str  # CLOSED or OPEN, as medical benchmarks call them
    content_type: str
    probe: SceneProbe  # puts the same question to another scene


def ask(scene: Scene, rng: np.random.Generator, count: int = 5) -> list[SceneQuestion]:
    """Up to ``count`` questions about different facts, of mixed formats and content types, in drawn order.

    A fixed pattern of formats or types would make the next question predictable, which looks like memory.
    """
    candidates = list(_probes(scene, rng))
    candidates = [candidates[index] for index in rng.permutation(len(candidates))]
    questions: list[SceneQuestion] = []
    facts: set[tuple[str, str]] = set()
    used: Counter[str] = Counter()
    for style in itertools.islice(itertools.cycle(_FORMATS), count):
        candidates.sort(key=lambda probe: used[probe.content_type])  # the least used type first
        fitting = (
            probe
            for probe in candidates
            if _suits(probe, style)
            and (probe.content_type, probe.subject) not in facts
            and probe.answer(scene) is not None
        )
        probe = next(fitting, None)
        if probe is None:
            continue
        facts.add((probe.content_type, probe.subject))
        used[probe.content_type] += 1
        questions.append(_question(probe, scene, style, rng))
    return [questions[place] for place in rng.permutation(len(questions))]


def facts(scene: Scene) -> list[tuple[SceneProbe, str]]:
    """Everything that can be asked of this scene and is not a matter of yes or no, with its answer."""
    answered = ((probe, probe.answer(scene)) for probe in (*_single(scene), *_paired(scene)))
    return [(probe, answer) for probe, answer in answered if answer is not None]


def as_guessable(probe: SceneProbe, scene: Scene, twin: Scene) -> bool:
    """Whether guessing from what is in sight helps on the twin as much as on the scene: the answer's shape,
    colour or texture is there as often, and what is asked for and absent has its shape and its colour
    there, though not together, as ``ask`` would have it."""
    old, new = probe.answer(scene), probe.answer(twin)
    if isinstance(probe, probes.IsThere) and new == "no":
        parts = Phrase(probe.phrase.shape), Phrase(colour=probe.phrase.colour)
        return all(part.matches(twin) for part in parts)
    return _seen(scene, old) == _seen(twin, new)


def _seen(scene: Scene, answer: str | None) -> int:
    return sum(answer in (item.shape, item.colour, item.texture) for item in scene.objects)


def name(scene: Scene, item: SceneObject) -> Phrase:
    """The shortest words that mean this object and no other."""
    short = Phrase(shape=item.shape)
    return short if short.only(scene) else Phrase(item.shape, item.colour)


def _question(
    probe: SceneProbe, scene: Scene, style: str, rng: np.random.Generator
) -> SceneQuestion:
    answer = probe.answer(scene)
    assert answer is not None  # ask() takes no other
    options: tuple[str, ...] = ()
    if style == "choice":
        wrong = [choice for choice in probe.choices if choice != answer]
        drawn = [wrong[index] for index in rng.permutation(len(wrong))[: OPTIONS - 1]]
        shuffled = [answer, *drawn]
        options = tuple(shuffled[index] for index in rng.permutation(len(shuffled)))
    answer_type = "OPEN" if style == "open" else "CLOSED"
    return SceneQuestion(probe.text, options, answer, answer_type, probe.content_type, probe)


def _suits(probe: SceneProbe, style: str) -> bool:
    if style == "yes/no":
        return probe.choices == YES_NO
    return probe.choices != YES_NO and (style == "choice" or probe.open_ended)


def _probes(scene: Scene, rng: np.random.Generator) -> Iterator[SceneProbe]:
    """What could be asked here; yes/no probes are drawn so that both answers are as likely."""
    yield from _single(scene)
    yield from _paired(scene)
    yield from _single_yes_no(scene, rng)
    yield from _paired_yes_no(scene, rng)


def _single(scene: Scene) -> Iterator[SceneProbe]:
    yield probes.CountOf(Phrase())
    yield probes.Largest()
    yield from (probes.Outermost(edge) for edge in EDGES)
    for shape in dict.fromkeys(item.shape for item in scene.objects):
        yield probes.CountOf(Phrase(shape=shape))
        yield probes.ColourOf(Phrase(shape=shape))
    for colour in dict.fromkeys(item.colour for item in scene.objects):
        yield probes.CountOf(Phrase(colour=colour))
        yield probes.ShapeOf(Phrase(colour=colour))
    yield from (probes.TextureOf(name(scene, item)) for item in scene.objects)


def _paired(scene: Scene) -> Iterator[SceneProbe]:
    for scene_object, other in itertools.permutations(scene.objects, 2):
        yield probes.RelationOf(name(scene, scene_object), name(scene, other))


def _single_yes_no(scene: Scene, rng: np.random.Generator) -> Iterator[SceneProbe]:
    present = {(item.shape, item.colour) for item in scene.objects}
    # A hard "no": the shape is there and the colour is there, only not together.
    absent = [
        (scene_object.shape, other.colour)
        for scene_object, other in itertools.permutations(scene.objects, 2)
        if (scene_object.shape, other.colour) not in present
    ]
    for item in scene.objects:
        truth = rng.random() < 0.5
        if truth or not absent:
            yield probes.IsThere(Phrase(item.shape, item.colour))
        else:
            yield probes.IsThere(Phrase(*pick(rng, absent)))
        wrong = [colour for colour in COLOURS if colour != item.colour]
        colour = item.colour if rng.random() < 0.5 else pick(rng, wrong)
        yield probes.IsColoured(Phrase(shape=item.shape), colour)


def _paired_yes_no(scene: Scene, rng: np.random.Generator) -> Iterator[SceneProbe]:
    for scene_object, other in itertools.combinations(scene.objects, 2):
        if rng.random() < 0.5:
            scene_object, other = other, scene_object  # either may be named first
        first, second = name(scene, scene_object), name(scene, other)
        yield probes.IsLarger(first, second)
        between = probes.relation(scene_object, other)
        if between is not None:
            wrong = [relation for relation in RELATIONS if relation != between]
            chosen = between if rng.random() < 0.5 else pick(rng, wrong)
            yield probes.IsRelated(first, second, chosen)


# From a question's words back to its probe, so that it can be put to another scene.


_COLOUR, _SHAPE = "|".join(COLOURS), "|".join(SHAPES)
_PHRASE = rf"(?:(?:{_COLOUR}) )?(?:{_SHAPE}|object)"
_SAID = {words: answer for answer, words in RELATIONS.items()}
_WHOLE = {  # what may stand in the place of a name in the patterns below
    "ONE": f"(?P<thing>{_PHRASE})",
    "MANY": f"(?P<thing>{_PHRASE})(?:es|s)",
    "OTHER": f"(?P<other>{_PHRASE})",
    "COLOUR": f"(?P<word>{_COLOUR})",
    "EDGE": f"(?P<word>{'|'.join(EDGES)})",
    "SAID": f"(?P<word>{'|'.join(_SAID)})",
}
_PATTERNS = (
    (r"What colour is the ONE\?", lambda thing, *_: probes.ColourOf(thing)),
    (r"What is the shape of the ONE\?", lambda thing, *_: probes.ShapeOf(thing)),
    (r"Which texture does the ONE have\?", lambda thing, *_: probes.TextureOf(thing)),
    (r"How many MANY are there\?", lambda thing, *_: probes.CountOf(thing)),
    (
        r"Which shape is closest to the EDGE edge of the picture\?",
        lambda thing, other, word: probes.Outermost(word),
    ),
    (r"Which shape is the largest object\?", lambda *_: probes.Largest()),
    (
        r"Where is the ONE relative to the OTHER\?",
        lambda thing, other, word: probes.RelationOf(thing, other),
    ),
    (r"Is there an? ONE in the picture\?", lambda thing, *_: probes.IsThere(thing)),
    (
        r"Is the ONE larger than the OTHER\?",
        lambda thing, other, word: probes.IsLarger(thing, other),
    ),
    (
        r"Is the ONE SAID the OTHER\?",
        lambda thing, other, word: probes.IsRelated(thing, other, _SAID[word]),
    ),
    (r"Is the ONE COLOUR\?", lambda thing, other, word: probes.IsColoured(thing, word)),
)
_COMPILED = [
    (re.compile(re.sub("ONE|MANY|OTHER|COLOUR|EDGE|SAID", lambda m: _WHOLE[m[0]], pattern)), make)
    for pattern, make in _PATTERNS
]


def read_question(text: str) -> SceneProbe | None:
    """The probe whose text this is; None if no probe asks in these words."""
    for pattern, make in _COMPILED:
        match = pattern.fullmatch(text.strip())
        if match is None:
            continue
        record = match.groupdict()
        probe: SceneProbe = make(
            _phrase(record.get("thing")), _phrase(record.get("other")), record.get("word")
        )
        if probe.text == text.strip():
            return probe
    return None


def _phrase(words: str | None) -> Phrase:
    messages = (words or "object").split()
    return Phrase(
        shape=next((word for word in messages if word in SHAPES), None),
        colour=next((word for word in messages if word in COLOURS), None),
    )


# The nearest scene on which another answer is right: fewest changes, most other facts kept.


Changes = Callable[[Scene], Iterator[Scene]]


class NoTwinError(ValueError):
    """No scene near this one has that answer; ``reason`` is few, stable words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def twin_scene(scene: Scene, probe: SceneProbe, answer: str) -> Scene:
    """The scene on which ``answer`` is the only right answer; deterministic.

    Of the scenes with fewest changes that one is taken on which most of what could be asked of the
    original has the same answer, then the one whose objects moved least.
    """
    old = probe.answer(scene)
    if old is None:
        raise NoTwinError("the question has no answer", f"'{probe.text}' is ambiguous here")
    if answer not in probe.choices:
        raise NoTwinError(
            "no such answer",
            f"'{answer}' does not answer '{probe.text}': {', '.join(probe.choices)}",
        )
    if answer == old:
        raise NoTwinError("the same answer", f"'{answer}' is right on the original already")
    steps = [answer]
    if isinstance(probe, CountOf):  # one object after the other
        toward = 1 if int(answer) > int(old) else -1
        steps = [str(count) for count in range(int(old) + toward, int(answer) + toward, toward)]
    nearest = scene
    for step in steps:
        nearest = _nearest(nearest, probe, step)
    return nearest


def _nearest(scene: Scene, probe: SceneProbe, answer: str) -> Scene:
    for level in _levels(probe):
        nearby = itertools.chain.from_iterable(change(scene) for change in level)
        fitting = [near for near in nearby if probe.answer(near) == answer]
        if fitting:
            known = facts(scene)
            return min(fitting, key=lambda near: (_lost(known, near), _moved(scene, near)))
    raise NoTwinError(
        "no room for the change",
        f"no scene within two changes answers '{answer}' to '{probe.text}'",
    )


def _levels(probe: SceneProbe) -> list[list[Changes]]:
    """Kinds of changes, those of equal weight together, the smallest first."""
    single: list[Changes] = [one_attribute]
    if isinstance(probe, Outermost | RelationOf | IsRelated):  # no other answer depends on places
        single.append(one_move)
    if isinstance(probe, CountOf):
        return [single, [one_object], [two_changes]]
    return [single, [two_changes]]


def _lost(known: list[tuple[SceneProbe, str]], scene: Scene) -> int:
    return sum(probe.answer(scene) != answer for probe, answer in known)


def _moved(old: Scene, new: Scene) -> float:
    pairs = zip(old.objects, new.objects, strict=False)
    return sum(math.dist(scene_object.position, other.position) for scene_object, other in pairs)
